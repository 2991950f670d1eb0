// Package otlp sends the events of traced messages to an OpenTelemetry collector, as spans
// by OTLP over HTTP.
//
// Three parts turn events into spans. The tracker (pure) pairs beginnings with ends: a publish
// with its commit, a delivery with the consumer's answer. The builder is a goroutine that
// takes events from a queue, passes them to the tracker and collects the spans in batches. The
// sender is a goroutine that posts the batches.
//
//  1. Nothing waits for a collector. Export puts an event into a bounded queue or drops it; a
//     batch waits for the sender in a bounded queue or is dropped. Drops are counted.
//  2. Memory is bounded: events, batches, and the tracker's state of messages in progress. A
//     span that does not fit is sent without its end.
//  3. A message without a context of its publisher has a trace id derived from its id, and its
//     publish a span id derived likewise: successive leaders of a partition add to the same
//     trace without communicating about it.
//
// Start with Exporter in exporter.go.
package otlp

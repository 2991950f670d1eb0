// Package otlp sends what happens to traced messages to an OpenTelemetry collector, as spans
// by OTLP over HTTP.
//
// Events become spans in three parts. The tracker (pure) pairs what begins with what ends it:
// a publish with its commit, a delivery with what the consumer did. The builder is a goroutine
// that takes events from a queue, has the tracker make spans of them and gathers these in
// batches. The sender is a goroutine that posts the batches.
//
//  1. Nothing waits for a collector. Export puts an event into a bounded queue or drops it; a
//     batch waits for the sender in a bounded queue or is dropped. What is dropped is counted.
//  2. Memory is bounded: events, batches, and what the tracker knows of messages that are on
//     their way. What does not fit is sent as it is known, without its end.
//  3. A message without a context of its publisher has a trace id that follows from its id,
//     and so has its publish a span id: nodes that lead a partition one after the other add to
//     the same trace without speaking about it.
//
// Start with Exporter in exporter.go.
package otlp

// Package client publishes to and consumes from a broker that speaks the NSQ protocol:
// brokerd, for which it is made, or an nsqd.
//
// A Client is made of addresses of nodes, of lookups, or of both. It keeps one connection to
// each node that it publishes to, sends publishes of all goroutines over it without waiting
// for the answers in between, and makes connections anew when they end. It prefers nodes that
// lead partitions of the topic, where a lookup tells which those are; any node of a cluster
// takes any publish.
//
//	c, err := client.New([]string{"127.0.0.1:4150"})
//	...
//	err = c.Publish(ctx, "orders", []byte("hello"))
//	switch {
//	case errors.Is(err, client.ErrRefused):   // nothing was published
//	case errors.Is(err, client.ErrUncertain): // it may have been
//	}
//
// A Consumer takes messages from all nodes that have some, with a handler or in a loop:
//
//	x, err := c.Subscribe("orders", "bill")
//	...
//	for m := range x.Messages(ctx) {
//		...
//		m.Finish()
//	}
//
// It knows the protocol as clients see it, and what an answer means for the data. It refuses
// to know how a broker stores anything, and does not log unless it is given a logger.
//
// Invariants:
//   - A publish that may have been carried out is never sent again, unless the broker knows
//     duplicates of it.
//   - Every publish has exactly one outcome.
//   - What is under way is bounded: bytes of publishes by WithMaxInFlightBytes, messages that
//     were received by WithMaxInFlight.
//   - After Close nothing of the client runs.
package client

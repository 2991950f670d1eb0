// Package client publishes to and consumes from a broker that speaks the NSQ protocol: brokerd,
// for which it is designed, or nsqd.
//
// A Client is created from addresses of nodes, lookups, or both. It keeps one connection to
// each node that it publishes to, pipelines the publishes of all goroutines over it, and
// reconnects automatically. It prefers nodes that lead partitions of the topic, as reported by
// a lookup; any node of a cluster accepts any publish.
//
//	c, err := client.New([]string{"127.0.0.1:4150"})
//	...
//	err = c.Publish(ctx, "orders", []byte("hello"))
//	switch {
//	case errors.Is(err, client.ErrRefused):   // nothing was published
//	case errors.Is(err, client.ErrUncertain): // it may have been
//	}
//
// A Consumer receives messages from all nodes that serve the topic, with a handler or in a
// loop:
//
//	x, err := c.Subscribe("orders", "bill")
//	...
//	for m := range x.Messages(ctx) {
//		...
//		m.Finish()
//	}
//
// It knows the protocol from the client's side, and what a response means for the data. It logs
// only to a logger that it is given.
//
// Invariants:
//   - A publish that may have been stored is never sent again, unless the broker can recognize
//     the duplicate.
//   - Every publish has exactly one outcome.
//   - Work in progress is bounded: bytes of publishes by WithMaxInFlightBytes, received
//     messages by WithMaxInFlight.
//   - After Close no goroutine of the client runs.
package client

// Package consume is the subscriptions at a node: a client's consumers of the partitions
// that the node leads, and relays for what others lead.
//
// It decides what a subscription takes from, how the client's credit is shared out among
// leaders, and which partitions of other nodes that have no consumer are adopted for a
// client here. It does not know the client's protocol: it has a Client.
//
// The leader's end of a relay is the relay source: an ordinary subscription whose Client is
// another node. The consumer's end, and the rules for credit, are pkg/relay.
//
// Invariants:
//
//  1. No more messages are in flight to a client than it asked for, wherever they come from.
//  2. What Take has handed over is written to a client only if Deliverable says so: under the
//     leader's lease, and not after a pause of this process.
//  3. A client that was served from here stays when a leadership moves, unless nothing is left
//     for it; one that cannot be served is told to go.
//  4. An adopted partition is let go of as soon as it has consumers of its own.
//
// Start at Consumers.Subscribe, then Subscription.Take and relaySources.serve.
package consume

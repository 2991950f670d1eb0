// Package relay serves a local consumer from partitions that another node leads.
//
// A [Relay] is the consumer's end of a relayed subscription; the relay source is the leader's.
// The package decides when to fetch, which fetched messages the client can still handle in
// time, and which answers are sent to the leader; [Allot] and [Redistribute] divide the client's credit
// among the relays of one subscription.
//
// Invariants:
//
//  1. The leader's clock decides: a sent message is in flight and times out by it, and its
//     timeout began before this side's; answers that arrive too late are refused there.
//  2. All relays of a subscription together have no more in flight than the client wants.
//  3. Messages that time out here before the client takes them are dropped, and nothing is
//     fetched until the client takes messages again: a client that does not read withholds
//     nothing from others.
//  4. When a relay ends, it reports messages that the client has not seen; those deliveries do
//     not count as attempts.
//  5. A Finish that the leader refused is reported to the client once.
//  6. What the queues of all relays hold is part of the node's memory budget. Without memory an
//     answer returns to the leader, and a relay fetches small answers, one at a time.
//
// Start at Relay.Take, then Relay.fetch. The relay source is in pkg/consume; the calls
// between the two are those of pkg/forward.
package relay

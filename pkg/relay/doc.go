// Package relay serves a consumer at a node from partitions that another node leads.
//
// A [Relay] is this node's end of a subscription; the relay source is the leader's. It
// decides when to fetch, which of the fetched messages the client still has in time, and
// which answers go to the leader; [Allot] and [Lend] decide how many messages each relay
// of one subscription may have in flight.
//
// Invariants:
//
//  1. The leader decides. What it sent is in flight from then on and times out by its
//     clock, which began before this side's; an answer that is too late there is refused.
//  2. All relays of a subscription have no more in flight together than the client wants.
//  3. What times out here before the client took it is dropped, and nothing is fetched
//     until the client takes again: a client that does not read keeps no messages from others.
//  4. What the client has not seen is told to the leader as unseen when the relay ends: the
//     delivery does not count as an attempt.
//  5. A Finish that the leader did not take is told to the client, once.
//
// Start at Relay.Take, then Relay.fetch. The relay source is in pkg/consume; the calls
// between the two are those of pkg/forward.
package relay

// Package consume implements subscriptions: local consumers of partitions that this node leads,
// and relays to the leaders of others.
//
// It decides which sources a subscription reads, how the client's credit is divided among
// leaders, and which remote partitions without consumers are adopted. It does not know the
// client's protocol, only the Client interface.
//
// The leader's end of a relay is the relay source: an ordinary subscription whose Client is
// another node. The consumer's end and the credit rules are in pkg/relay.
//
// Invariants:
//
//  1. A client never has more messages in flight than it asked for, from all sources together.
//  2. A message returned by Take is written to the client only if Deliverable confirms it: the
//     leader's lease is valid and the process was not paused.
//  3. A client stays connected when leadership moves, unless nothing is left for it; a client
//     that cannot be served is disconnected.
//  4. An adopted partition is released as soon as it has local consumers.
//
// Start at Consumers.Subscribe, then Subscription.Take and relaySources.serve.
package consume

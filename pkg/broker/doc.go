// Package broker wires the rooms of one node. It creates each with those below it, starts them
// bottom-up and closes them top-down:
//
//	operate    what operators ask and do        consume    subscriptions and relays
//	publish    a publish finds its leader
//	directory  topics and channels change
//	host       replicas, roles, terms, the disk
//
// It dispatches calls of other nodes to the room in charge. It decides nothing else, and knows
// neither the wire format nor HTTP nor the transport.
//
// Invariants:
//
//  1. No room imports one above or beside it.
//  2. Errors keep their meaning between nodes: wireErrors gives each a code, and codes are
//     never reused.
//
// Start at assemble. Tests of a whole node, alone and in clusters in memory, are here.
package broker

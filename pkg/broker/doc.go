// Package broker is one node wired together. It makes the rooms of a node, each of those
// below it, starts them in that order and closes them in the other:
//
//	operate    what operators ask and do        consume    subscriptions and relays
//	publish    a publish finds its leader
//	directory  topics and channels change
//	host       replicas, roles, terms, the disk
//
// It takes what other nodes ask for, and hands it to the room that it is for. It decides
// nothing else, and knows neither the wire nor HTTP, nor how nodes reach each other.
//
// Invariants:
//
//  1. No room knows one above it, or beside it.
//  2. An error keeps its meaning between nodes: wireErrors has each with a code that is never
//     given to another.
//
// Start at assemble. Tests of a whole node, alone and in clusters in memory, are here.
package broker

// Package controller decides what the cluster does next: which nodes are alive,
// who leads which partition, which replicas move, when leaderships go back to
// where they belong. It runs on the node that leads the metadata's Raft group.
//
// It knows the metadata (a [meta.State] that nobody changes), what probes of the
// nodes have brought, and the time that it is given. It refuses to know how a
// probe travels, how a command is agreed on, and what a partition's log holds:
// every decision is a value that follows from the arguments. [Loop] is the only
// part with goroutines and a clock, and it decides nothing.
//
// Invariants, which the tests check on random clusters:
//
//  1. Only a member of the in-sync set is ever named as leader. The command for
//     anything else is an operator's and is not made here.
//  2. What is to be done is read from the metadata each time and kept nowhere
//     else. A controller that takes over goes on where the last one stopped; a
//     command that was refused, or whose answer was lost, is decided anew.
//  3. The same metadata, beliefs and time give the same commands, in the same
//     order. Deciding twice is harmless: each command carries the version of the
//     partition, or the incarnation of the node, that it was decided on.
//  4. A controller that is new, or was not running for a while, believes nothing
//     that it has not seen since.
//  5. No replica is taken away from a partition before those that replace it are
//     in sync.
//
// Start at Loop, then the decisions that it calls.
package controller

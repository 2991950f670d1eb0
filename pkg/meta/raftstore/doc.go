// Package raftstore replicates the meta.State through a Raft log of commands. The Raft library,
// its storage file and its snapshots are visible only here.
//
// It proposes commands, applies committed ones, restores the state from snapshot and log, and
// distinguishes damage from absence. It does not interpret commands and acts on no change:
// readers wait for Changed and read the state.
//
// DESIGN.md numbers the invariants and says where to start.
package raftstore

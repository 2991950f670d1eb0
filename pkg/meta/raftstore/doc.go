// Package raftstore replicates the meta.State through a Raft log of commands. The Raft library,
// its storage file and its snapshots are visible only here.
//
// It proposes commands, applies committed ones, restores the state from snapshot and log, and
// distinguishes damage from absence. It does not interpret commands and acts on no change:
// readers wait for Changed and read the state.
//
// Invariants:
//
//  1. A command for which Propose returned no error is on the disks of a
//     majority and in the state of this node.
//  2. An existing store never opens empty: damaged or missing files are an error that names
//     them.
//  3. A connection reaches the intended member even if its address was taken over: a vote
//     counts for the node that cast it.
//  4. An unknown command stops the store before it is applied; nothing after it is applied.
//
// Start at Store.Propose, then machine.ApplyBatch. transport.go and announce.go sit between the
// library and the network (ADR 69); verify.go checks what must hold before the library starts
// (ADR 3).
package raftstore

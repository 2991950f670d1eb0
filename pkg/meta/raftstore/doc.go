// Package raftstore keeps a meta.State on this node, equal to that of every
// other node, through a replicated log of commands. It is the only package that
// knows how: the consensus library, its storage file and its snapshots are
// visible nowhere else.
//
// It knows how to propose a command, to apply what was agreed, to restore a
// state from snapshot and log, and to tell damage from absence. It refuses to
// know what a command means, and acts on no change: who wants to, waits for
// Changed and reads.
//
// Invariants:
//
//  1. A command for which Propose returned no error is on the disks of a
//     majority and in the state of this node.
//  2. A store that existed never opens empty: damaged or missing files are an
//     error that names them.
//  3. A connection is to the member that it is meant for, whoever has its address by
//     now: a vote counts for the node that gave it.
//  4. A command that this program does not know stops the store, with the state
//     as it was before; nothing after it is applied.
//
// Start at Store.Propose, then machine.ApplyBatch. transport.go and announce.go are what
// stands between the library and the network (ADR 69); verify.go is what must hold before
// the library is started (ADR 3).
package raftstore

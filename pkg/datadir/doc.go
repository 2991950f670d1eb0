// Package datadir knows what lies where in a node's data directory, which cluster its
// topics are of (Dir.Claim), and which replicas the node has ever made there (Ledger).
//
// It refuses to know what a replica holds and what becomes of one that is damaged: that is
// for whoever hosts it. It starts no goroutine.
//
// Invariants:
//
//   - Topics of another cluster are never served and never deleted: they are moved aside
//     whole.
//   - A replica that was lost is told from one that was never made, however the node and
//     its disk end.
//   - What leaves its place does so in one step, so that it is there or not.
package datadir

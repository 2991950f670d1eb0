// Package datadir is the layout of a node's data directory: which files are where, which
// cluster the topics belong to (Dir.Claim), which replicas the node has ever created
// (Ledger), and which disk it is (Start).
//
// It does not know the content of a replica or the treatment of a damaged one; that is for
// pkg/host. It starts no goroutine.
//
// Invariants:
//
//   - Topics of another cluster are never served or deleted; they are moved aside.
//   - A lost replica is distinguished from one that never existed, whatever happened to the
//     node and its disk.
//   - No two starts are the same, also of copies of one directory: what follows a start is known
//     to the directory in which it was made, and to later copies of it.
//   - Moves are atomic: data is in its place or not.
package datadir

// Package datadir is the layout of a node's data directory: which files are where, which
// cluster the topics belong to (Dir.Claim), and which replicas the node has ever created
// (Ledger).
//
// It does not know the content of a replica or the treatment of a damaged one; that is for
// pkg/host. It starts no goroutine.
//
// Invariants:
//
//   - Topics of another cluster are never served or deleted; they are moved aside.
//   - A lost replica is distinguished from one that never existed, whatever happened to the
//     node and its disk.
//   - Moves are atomic: data is in its place or not.
package datadir

// Package meta is the cluster's metadata as a pure value: which nodes there
// are, which topics with which partitions and channels, who leads what, and the
// cluster-wide settings.
//
// It knows what a valid change is. It refuses to know how a change reaches the
// other nodes, what time it is, and what any of it looks like on a disk: the
// package reads no clock, draws no random number, opens no file.
//
// Invariants, which Apply keeps and the tests check:
//
//  1. A State is a function of the commands applied to it, in order: equal
//     histories give equal snapshots, byte for byte.
//  2. Every command is validated again when it is applied. One that is refused
//     changes nothing but the index.
//  3. A *Topic, *Channel or *Node that was handed out never changes: a change
//     makes a new one.
//  4. An incarnation is the index of the command that created the object, so it
//     is never used twice. An incarnation at or below State.Index that is not
//     in the State was deleted; no tombstone is needed to say so.
//  5. The in-sync set of a partition is a non-empty subset of its replicas, and
//     its leader is in it. Epoch and version of a partition only grow.
//
// Start at State, then Command and ApplyAt. docs/lessons.md says what taught them.
package meta

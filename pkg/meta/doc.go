// Package meta is the cluster's metadata as a pure value: which nodes there
// are, which topics with which partitions and channels, who leads what, and the
// cluster-wide settings.
//
// It knows which changes are valid. It does not know replication, time or storage: the package
// reads no clock, draws no random number and opens no file.
//
// Invariants, which Apply keeps and the tests check:
//
//  1. A State is a function of the commands applied to it, in order: equal
//     histories give equal snapshots, byte for byte.
//  2. Every command is validated when it is applied. A refused command changes nothing but the
//     index.
//  3. A *Topic, *Channel or *Node is immutable once returned: a change creates a new one.
//  4. An incarnation is the index of the command that created the object, so it is never
//     reused. An incarnation at or below State.Index that is not in the State was deleted; no
//     tombstone is needed.
//  5. The in-sync set of a partition is a non-empty subset of its replicas, and
//     its leader is in it. Epoch and version of a partition only grow.
//
// Start at State, then Command and ApplyAt. docs/lessons.md tells which failures taught them.
package meta

// Package meta is the cluster's metadata as a pure value: which nodes there
// are, which topics with which partitions and channels, who leads what, and the
// cluster-wide settings.
//
// It knows which changes are valid. It does not know replication, time or storage: the package
// reads no clock, draws no random number and opens no file.
//
// DESIGN.md numbers the invariants and says where to start.
package meta

// Package topic gives meaning to a replica's log: its records are messages, and channels are
// cursors over them. A Partition serves a led replica: it accepts publishes, delivers messages
// to consumers and decides what its channels have finished, which pkg/positions stores and shares.
// It knows the log and the channels' state; it does not know the network, the metadata, or other
// replicas.
//
// DESIGN.md numbers the invariants and says where to start.
package topic

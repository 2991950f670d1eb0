// Package host manages the replicas on a node's disk: it opens and closes them, assigns each
// the role that the metadata says, and maintains their data.
//
// It decides which partitions lead here and until when, how damaged, suspect or missing data is
// treated, when positions are stored, what is deleted, and when the disk counts as full. It
// does not know clients, consumers, forwarded publishes or operators; it reaches other nodes
// through a forward.Caller.
//
// Metadata is the target state; Converge establishes it. First start, restart, fail-over,
// transfer and deletion are one path: a replica leads, is on standby, or is removed. Each topic
// is changed in its lane, each replica in its own, and many change concurrently. Lookups read
// maps maintained by Converge and never wait.
//
// DESIGN.md numbers the invariants and says where to start.
package host

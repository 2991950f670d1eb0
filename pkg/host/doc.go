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
// Invariants:
//
//  1. A replica takes a role only from metadata at least as new as the registration of this
//     start, and never in an epoch below one it has known.
//  2. Messages are delivered only under a lease: within its span the node was in contact with a
//     quorum or with every in-sync replica.
//  3. Data is moved aside only if the metadata no longer assigns it to this node, or if other
//     replicas are in sync and this one is not; it is deleted only if a committed command
//     deleted its topic, or an in-sync replica has replaced it.
//  4. A leadership transfer applies only to the topic incarnation it was requested for.
//  5. A role that cannot be assumed, or a replica without progress, is reported in the health
//     within five seconds.
//
// docs/lessons.md tells which failures taught them. Start at New, which wires the parts: each
// has its own fields for what it uses, and none has the Host. Then read
//
//	Topics      what is held of each topic, for those who look
//	Converger   the lanes in which that follows the metadata
//	roles       the role of a replica: it leads, is on standby, or goes
//	Quarantine  replicas that are damaged, suspect, missing or set aside
//	handovers   leaderships that go to other nodes
package host

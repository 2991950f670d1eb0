// Package coord runs the replicas of partitions: it opens their logs, leads terms, and follows
// other leaders. It knows the log, the in-sync replicas and the partition's metadata; it does
// not know the content of records, where metadata comes from, or the transport (see Peers).
//
// A leadership is an object, the Term. It holds the only right to append and ends with the
// leadership: a closed Term refuses appends, so fencing is enforced by a type instead of
// scattered checks.
//
// Invariants, most of which docs/replication.md explains:
//
//  1. An entry is acknowledged only when every counting replica has it: the applied
//     in-sync set plus any replica proposed, or about to be proposed, to join.
//  2. A term trusts only what a follower reported in the current session, in this epoch, and in
//     the node incarnation known to the metadata.
//  3. At most one change of the in-sync set is pending. It is abandoned only when it can never
//     be applied.
//  4. Every accepted entry is completed exactly once, in order; it is refused only if it is in
//     no log.
//  5. A replica serves only leaders of the epoch that it has adopted and stored.
//  6. An idle partition has no goroutine, timer or traffic, except for Tick on led partitions
//     with followers.
//  7. In a round of the file system (vfs.Member) neither the appender of a term nor a follower waits
//     for the disk, for another partition, or for a lock that is held while one waits for these.
//
// Start at Replica, then Term. docs/replication.md names what taught each rule.
package coord

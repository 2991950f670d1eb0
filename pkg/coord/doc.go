// Package coord runs the replicas of partitions: it opens their logs, leads
// terms, and follows other leaders. It knows the log, the in-sync replicas and
// what metadata says of the partition; it does not know what a record means, how
// metadata comes about, or how nodes are connected (Peers is asked).
//
// A leadership is an object, the Term. It holds the only right to append and
// dies with the leadership: what is closed refuses, so fencing is a property of
// a type and not of scattered checks.
//
// Invariants, most of which docs/replication.md explains:
//
//  1. An entry is acknowledged only when every counting replica has it: the applied
//     in-sync set plus any replica proposed, or about to be proposed, to join.
//  2. A term believes what a follower has said in this session, in this epoch, in
//     the life of its node that metadata knows, and nothing else.
//  3. One change of the in-sync set is open at a time. It is given up only when it
//     is certain that it will never be applied.
//  4. Every entry that was taken is settled once, in order; refused only if it is
//     in no log.
//  5. A replica serves leaders of the epoch that it has adopted, and that is stored.
//  6. While nothing happens there is no goroutine, timer or message for a partition,
//     but for a Tick of those that are led and have followers.
//
// Start at Replica, then Term. docs/replication.md names what taught each rule.
package coord

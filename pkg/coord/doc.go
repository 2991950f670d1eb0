// Package coord runs the replicas of partitions: it opens their logs, leads terms, and follows
// other leaders. It knows the log, the in-sync replicas and the partition's metadata; it does
// not know the content of records, where metadata comes from, or the transport (see Peers).
//
// A leadership is an object, the Term. It holds the only right to append and ends with the
// leadership: a closed Term refuses appends, so fencing is enforced by a type instead of
// scattered checks.
//
// DESIGN.md numbers the invariants and says where to start.
package coord

// Package coord runs the replicas of partitions: it opens their logs, leads
// terms, and (with more than one node) follows other leaders. It knows the log,
// the metadata and the in-sync replicas; it does not know what a record means.
//
// A leadership is an object, the Term. It holds the only right to append and
// dies with the leadership: what is closed refuses, so fencing is a property of
// a type and not of scattered checks.
package coord

// Package backups takes backups of a running cluster over /v1 and restores topics from them. It decides in which
// order a cluster is read and written, so that no message that a channel has not finished is missing in a backup,
// or in what is restored. What stands in a directory of backups it leaves to pkg/backup.
//
// Invariants:
//
//  1. Of a partition, what the channels have to deliver is read before the end up to which messages are copied. What
//     was published in between counts as not delivered: it may be delivered again, and is never skipped.
//  2. A topic is paused and has the channel Marker from before its first message is restored until its last
//     channel is in place.
package backups

// Package backups takes backups of a running cluster over /v1 and restores topics from them. It
// decides the order of reads and writes, so that no message left unfinished by a channel is missing
// from a backup or from a restored topic. The format on disk belongs to pkg/backup.
//
// Invariants:
//
//  1. For each partition, the channels' unfinished messages are read before the end offset up to
//     which messages are copied. Messages published in between count as undelivered: they may be
//     redelivered and are never skipped.
//  2. A restored topic is paused and has the channel Marker from before its first message is
//     written until its last channel is in place.
package backups

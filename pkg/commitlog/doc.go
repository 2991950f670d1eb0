// Package commitlog is the log of one replica of one partition: an append-only
// sequence of batches in segment files.
//
// It knows batches (bytes, checksums, epochs, offsets), files, and what is durable and
// committed. It does not know the network, the meaning of records, schedules (timestamps and
// ages are arguments), or who leads.
//
// Invariants:
//
//  1. Offsets are dense: a batch begins where the previous one ends. The only gaps are corrupt
//     ranges, which are reported and never skipped silently.
//  2. Start <= CommittedEnd <= End and DurableEnd <= End, also after retention or a reset
//     emptied the log: then Start == End. CommittedEnd never decreases, and nothing below it is
//     truncated.
//  3. Check and append are atomic: a revoked Writer changes nothing.
//  4. Bytes below End never change, and every byte read from disk is verified before it is
//     returned.
//  5. After a write or sync error the log stays failed: fsync is never retried, and nothing
//     more is reported durable. The only exception is an append that lacked disk space, which
//     is rolled back.
//  6. Indexes and the epoch history can be rebuilt from batch headers.
//
// The format is drawn in docs/format/log.md.
//
// Start at Open and Log, then Writer.Append.
package commitlog

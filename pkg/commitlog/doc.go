// Package commitlog is the log of one replica of one partition: an append-only
// sequence of batches in segment files.
//
// It knows batches (their bytes, their checksums, the epoch and the offsets in
// their headers), files, and what is durable and committed. It refuses to know
// the network, what a record means, when anything should happen (timestamps and
// ages are handed in), and who leads.
//
// Invariants:
//
//  1. Offsets are dense: a batch begins where the one before it ends. Only a
//     damaged range, which is reported and never skipped silently, interrupts that.
//  2. Start <= CommittedEnd <= End and DurableEnd <= End, also in a log that
//     retention or a reset has emptied: Start == End then. CommittedEnd never moves
//     back; nothing below it is ever truncated.
//  3. Check and append are one act: a Writer that was revoked changes nothing.
//  4. Bytes below End are never changed, and every byte that is read back from
//     disk is checked before it is handed out.
//  5. After a write or sync error the log is failed for good: fsync is never
//     retried, and nothing more is called durable. The one exception is an append
//     for which there was no room, which is undone.
//  6. Indexes and the epoch history are derived from batch headers and can be
//     rebuilt from them.
//
// The format is drawn in docs/format/log.md.
//
// Start at Open and Log, then Writer.Append.
package commitlog

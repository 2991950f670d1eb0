// Package redo makes the writes of many files durable with one sync.
//
// A disk syncs files one at a time: a node whose thousand logs each have a batch to sync would
// spend all its time in syncs. An FS wraps a file system, writes what such files owe the disk
// into one sequential journal, and syncs that for all of them. The files themselves were
// written before, without a sync; they are synced later, when the journal is full or old, and
// the journal's space is reused. After a crash, Open writes the journal's content into the
// files again before anything reads them.
//
// The journal is physical: file, position and bytes. An FS does not know what files mean, and
// its users do not know the journal: SyncData makes data durable either way. A file uses the
// journal from the moment that several files are being synced at once until it is settled: all
// its journaled writes have been synced in the file itself. A file that is synced alone is
// synced directly.
//
// # Rules
//
//  1. A sync of a file that is live, which is one of which the journal holds writes
//     that are not settled, goes through the journal: else a write that is replayed
//     could undo a later one.
//  2. A replay may undo nothing. A direct sync of a live file is therefore followed by a
//     void entry, synced as well, which says that what the journal holds of the file does
//     not count any more; and so is the sync that a rename begins with. A new file gets its
//     void entry before it is made. The sync behind a truncation is direct.
//  3. A file of the journal is settled as a whole before it is used again: every file
//     that is live in it is synced, then its head says so, and is synced. Of the two
//     files of a journal the older is always settled first.
//  4. A record is written behind the sync of the one before it. So a record that is
//     damaged is torn, and was never acknowledged, only if none follows it.
//  5. A note about a live file is written to its own file before the journal forgets a write
//     of the live one: before the half is settled, and before a void entry. While that goes on,
//     notes are written at once, unless the other half holds a newer write.
//  6. What is written to a live file by a caller that syncs it before it tells anybody may be kept in
//     memory (vfs.WriteDeferred). It is in the file before the half is settled, before any other change of
//     the file, before the file is synced directly or read there, and before its last handle for writing is
//     closed. That it cannot be written fails the journal.
//  7. A journal failure fails every later sync that uses it: the process must restart and
//     replay.
//
// # Format
//
// Two files, which are used in turn. All numbers are little-endian.
//
//	head, 512 bytes           | "BRKREDO" 1 | CRC-32C of the rest u32 | settled u32 | generation u64 | zeros |
//	record, at 512-byte steps | "BRKD" | CRC-32C of the rest u32 | length u32 | 0 u32 | generation u64 | number u64 | entries |
//
// A head of zeros is one of a file that was never used; what stands behind a head with
// settled 1 does not count. Generations grow with each use of a file, the numbers of
// records in a generation from 1 on. The entries of a record,
// with unsigned varints v:
//
//	name   1 | file v | length v | path, relative to the root
//	write  2 | file v | offset v | length v | bytes
//	void   3 | file v
//
// A number of a file is good for one generation, behind the name entry that gives it.
//
// The scheme is that of redo logging with physical records (Gray and Reuter,
// Transaction Processing, 1993, chapter 10), as journaling file systems use it for data. Start at Open and rounds.
package redo

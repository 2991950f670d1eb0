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
// DESIGN.md numbers the invariants and says where to start.
package redo

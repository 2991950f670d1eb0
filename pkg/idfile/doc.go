// Package idfile stores the dedup ids of messages that a partition's log no longer holds: the log contains the ids of
// the messages that it holds, and these files those that retention removed before their window had passed. Each
// replica stores them before it removes the messages, and gets its leader's files when its log begins where the
// leader's does.
//
// It knows its files. It does not know logs, clocks or windows: what is stored, and how long, is up to its caller.
//
// Invariants: what Append has stored is on disk when it returns, and readable until its file is dropped, oldest first.
// A file that was written by an earlier process is never appended to, so that its torn end, which was never relied on,
// stays at its end. A block is read only if its checksum is right.
package idfile

// Package backup is the format of a backup directory: manifests that list chunks, and chunks with
// messages and channel positions. It writes, lists, reads and verifies them. It does not know where
// messages come from or go to.
//
//	DIR/backups/ID.json       manifest of a complete backup, with its own checksum
//	DIR/backups/ID.partial    there while a backup is made, and left by one that was broken off
//	DIR/chunks/SHA256.gz      lines of JSON, compressed; named by the SHA-256 of the file
//
// Invariants:
//
//  1. A manifest gets its final name only after everything it refers to is on disk, so an
//     incomplete backup is never mistaken for a complete one.
//  2. Chunks are immutable. Backups share identical chunks.
//  3. Memory holds one line and one manifest at a time.
package backup

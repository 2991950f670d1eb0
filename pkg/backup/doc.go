// Package backup is the format of a directory of backups: manifests that name chunks, and chunks that hold
// messages and positions of channels. It writes, lists, reads and checks them. It does not know where messages
// come from, nor where they go.
//
//	DIR/backups/ID.json       manifest of a complete backup, with its own checksum
//	DIR/backups/ID.partial    there while a backup is made, and left by one that was broken off
//	DIR/chunks/SHA256.gz      lines of JSON, compressed; named by the SHA-256 of the file
//
// Invariants:
//
//  1. A manifest has its name once all that it refers to is on disk: what is not complete is never taken for a backup.
//  2. A chunk is never changed. Backups share the chunks that are the same.
//  3. One line is in memory at a time, and one manifest.
package backup

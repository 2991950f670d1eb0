//go:build !linux

package raftstore

import "os"

// allocate allocates size more bytes on disk for the file f, which ends at
// from.
func allocate(f *os.File, from, size int64) error { return writeZeros(f, from, size) }

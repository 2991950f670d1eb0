//go:build !linux

package raftstore

import "os"

// allocate gives the file f, which ends at from, size bytes more of disk.
func allocate(f *os.File, from, size int64) error { return writeZeros(f, from, size) }

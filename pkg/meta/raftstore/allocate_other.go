//go:build !linux

package raftstore

import "os"

// allocate gives the empty file f size bytes of disk.
func allocate(f *os.File, size int64) error { return writeZeros(f, size) }

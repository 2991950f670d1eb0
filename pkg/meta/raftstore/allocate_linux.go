package raftstore

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate allocates size more bytes on disk for the file f, which ends at
// from.
func allocate(f *os.File, from, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, from, size)
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		return writeZeros(f, from, size)
	}
	return err
}

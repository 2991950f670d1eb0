package raftstore

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives the file f, which ends at from, size bytes more of disk.
func allocate(f *os.File, from, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, from, size)
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		return writeZeros(f, from, size)
	}
	return err
}

package raftstore

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives the empty file f size bytes of disk.
func allocate(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		return writeZeros(f, size)
	}
	return err
}

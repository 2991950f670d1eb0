package raftstore

import (
	"errors"
	"os"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// allocate allocates size more bytes on disk for the file f, which ends at from.
func allocate(f *os.File, from, size int64) error {
	err := (vfs.OS{}).Allocate(f, from, size)
	if errors.Is(err, errors.ErrUnsupported) {
		return writeZeros(f, from, size)
	}
	return err
}

// writeZeros is allocate for a file system that cannot allocate without writing.
func writeZeros(f *os.File, from, size int64) error {
	zeros := make([]byte, 64<<10)
	for size > 0 {
		n, err := f.WriteAt(zeros[:min(size, int64(len(zeros)))], from)
		if err != nil {
			return err
		}
		from += int64(n)
		size -= int64(n)
	}
	return f.Sync()
}

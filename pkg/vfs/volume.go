package vfs

import "errors"

// Volume is a whole file system of the operating system. Its methods are safe for concurrent use.
type Volume interface {
	// Sync makes everything durable that any process has written to the volume so far: the content of
	// files, and the names in directories. It is one call instead of thousands, and also waits for
	// what other programs have written. It returns an error if any write to the volume has failed
	// since the previous Sync, or since OpenVolume, even if another program was told of it as well.
	// The error does not tell which file failed: after one, the caller syncs file by file.
	Sync() error
	Close() error
}

// OpenVolume opens the volume that holds name. Its error wraps errors.ErrUnsupported if fsys cannot
// sync a whole volume.
func OpenVolume(fsys FS, name string) (Volume, error) {
	if s, ok := fsys.(interface {
		OpenVolume(name string) (Volume, error)
	}); ok {
		return s.OpenVolume(name)
	}
	return nil, errors.ErrUnsupported
}

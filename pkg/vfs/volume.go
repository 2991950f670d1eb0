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

// WrapVolume opens the volume that holds name, and has each of its syncs done by during: it is the
// method OpenVolume of a file system that wraps fsys.
func WrapVolume(fsys FS, name string, during func(sync func() error) error) (Volume, error) {
	v, err := OpenVolume(fsys, name)
	if err != nil {
		return nil, err
	}
	return &wrappedVolume{v, during}, nil
}

type wrappedVolume struct {
	Volume
	during func(sync func() error) error
}

// Sync implements Volume.
func (w *wrappedVolume) Sync() error { return w.during(w.Volume.Sync) }

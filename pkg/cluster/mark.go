package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// Marks in the data directory.
const (
	// markClean exists while the node does not run and its last process stopped cleanly:
	// everything that it acknowledged is on disk.
	markClean = "clean-shutdown"
	// markUnregistered exists from before the first use of a directory without metadata until the
	// cluster knows that this node started without data.
	markUnregistered = "unregistered"
)

// marks reads and sets the marks of a directory.
type marks struct {
	fs  vfs.FS
	dir string
}

// popClean reports whether the last process stopped cleanly, and removes the mark: from here on
// the node must stop cleanly again.
func (m marks) popClean() (clean bool, err error) {
	if clean, err = m.has(markClean); clean && err == nil {
		err = m.clear(markClean)
	}
	return clean, err
}

func (m marks) has(name string) (bool, error) {
	_, err := m.fs.Stat(filepath.Join(m.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// set creates a mark. It is on disk when set returns.
func (m marks) set(name string) error {
	if err := vfs.WriteFileSynced(m.fs, filepath.Join(m.dir, name), []byte(name+"\n")); err != nil {
		return fmt.Errorf("mark the data directory: %w", err)
	}
	return nil
}

// clear removes a mark. It is gone from the disk when clear returns.
func (m marks) clear(name string) error {
	err := m.fs.Remove(filepath.Join(m.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = m.fs.SyncDir(m.dir)
	}
	if err != nil {
		return fmt.Errorf("mark the data directory: %w", err)
	}
	return nil
}

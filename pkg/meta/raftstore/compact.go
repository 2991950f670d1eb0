package raftstore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/brokerd/brokerd/pkg/vfs"
)

const (
	compactBytes   = 64 << 20 // smaller log files are not compacted
	compactTxBytes = 1 << 20  // bytes copied per transaction
)

// compact rewrites a large and mostly free log file: its storage never returns space to the disk.
// The file must be verified and not open.
func compact(path string, log *slog.Logger) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() < compactBytes {
		return nil
	}
	if err != nil {
		return fmt.Errorf("metadata log: %w", err)
	}
	fresh := path + ".new"
	worth, err := compactInto(fresh, path)
	if err == nil && worth {
		err = errors.Join(os.Rename(fresh, path), vfs.OS{}.SyncDir(filepath.Dir(path)))
		log.Debug("metadata log compacted", "path", path, "was_bytes", info.Size())
	}
	if rest := os.Remove(fresh); rest != nil && !errors.Is(rest, fs.ErrNotExist) {
		err = errors.Join(err, rest)
	}
	if err != nil {
		// The old file is unchanged.
		log.Warn("metadata log compaction failed; the old file stays in use", "path", path, "error", err)
	}
	return nil
}

// compactInto copies the log file at path to fresh, and reports whether the copy is worthwhile: at
// most half the size.
func compactInto(fresh, path string) (bool, error) {
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	from, err := bbolt.Open(path, 0o600, boltOptions())
	if err != nil {
		return false, err
	}
	defer func() { _ = from.Close() }() // it was only read
	stats := from.Stats()
	size := int64(0)
	if err := from.View(func(tx *bbolt.Tx) error { size = tx.Size(); return nil }); err != nil {
		return false, err
	}
	if free := int64(stats.FreePageN) * int64(from.Info().PageSize); free*2 < size {
		return false, nil
	}
	to, err := bbolt.Open(fresh, 0o600, boltOptions())
	if err != nil {
		return false, err
	}
	err = bbolt.Compact(to, from, compactTxBytes)
	return err == nil, errors.Join(err, to.Close())
}

package backup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/fate"
)

// maxManifestBytes is the largest manifest that is read.
const maxManifestBytes = 1 << 30

const (
	backupsDir = "backups"
	chunksDir  = "chunks"
	whole      = ".json"
	partial    = ".partial"
	chunkEnd   = ".gz"
	tempPrefix = "new-"
)

// Refusals. Each is marked fate.Refused.
var (
	ErrNoBackup   = fate.Refuse("no such backup in the directory")
	ErrIncomplete = fate.Refuse("backup is incomplete: it was interrupted or is still running")
)

// Dir is a directory of backups. Its methods may be called by several processes at once.
type Dir struct{ path string }

// At returns the directory at a path.
func At(path string) Dir { return Dir{path} }

// absent is a directory that does not exist, or in which no backup was made: an ErrNoBackup.
type absent struct{ error }

// Unwrap returns the file system's error.
func (a absent) Unwrap() error { return a.error }

// Is makes it an ErrNoBackup.
func (absent) Is(target error) bool { return target == ErrNoBackup }

// Listed is a backup in a directory. Err is the reason why its manifest cannot be read.
type Listed struct {
	ID       string
	Complete bool
	Manifest *Manifest // nil: it is incomplete, or cannot be read
	Err      error
}

// List returns the backups of a directory, the oldest first.
func (d Dir) List() ([]Listed, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, backupsDir))
	if errors.Is(err, fs.ErrNotExist) {
		err = absent{err}
	}
	if err != nil {
		return nil, fmt.Errorf("%s holds no backups: %w", d.path, err)
	}
	var all []Listed
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), partial); ok {
			all = append(all, Listed{ID: id})
		}
		if id, ok := strings.CutSuffix(e.Name(), whole); ok {
			m, err := d.Load(id)
			all = append(all, Listed{id, true, m, err})
		}
	}
	slices.SortFunc(all, func(a, b Listed) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// Load returns the manifest of a backup; "": of the latest that is complete.
func (d Dir) Load(id string) (*Manifest, error) {
	if id == "" {
		all, err := d.List()
		if err != nil {
			return nil, err
		}
		for _, l := range slices.Backward(all) {
			if l.Complete {
				return l.Manifest, l.Err
			}
		}
		return nil, fmt.Errorf("%s: %w", d.path, ErrNoBackup)
	}
	if id != filepath.Base(id) {
		return nil, fmt.Errorf("%q: %w", id, ErrNoBackup)
	}
	at := filepath.Join(d.path, backupsDir, id)
	f, err := os.Open(at + whole)
	if errors.Is(err, fs.ErrNotExist) {
		if _, broken := os.Stat(at + partial); broken == nil {
			return nil, fmt.Errorf("%s: %w", id, ErrIncomplete)
		}
		return nil, fmt.Errorf("%s: %w", id, ErrNoBackup)
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxManifestBytes))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("read manifest of backup %s: %w", id, err)
	}
	m, err := decodeManifest(data)
	if err == nil && m.ID != id {
		err = corrupt("the manifest belongs to backup %s", m.ID)
	}
	if err != nil {
		return nil, fmt.Errorf("backup %s: %w", id, err)
	}
	return m, nil
}

// Begin begins a backup: from now on it is listed as incomplete.
func (d Dir) Begin(id string) error {
	for _, name := range []string{backupsDir, chunksDir} {
		if err := os.MkdirAll(filepath.Join(d.path, name), 0o750); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(d.path, backupsDir, id+whole)); err == nil {
		return fmt.Errorf("backup %s: %w", id, fs.ErrExist)
	}
	f, err := os.OpenFile(filepath.Join(d.path, backupsDir, id+partial), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), syncDir(filepath.Join(d.path, backupsDir)))
}

// Complete makes a backup whose chunks are written a complete one.
func (d Dir) Complete(m *Manifest) error {
	data, err := m.encode()
	if err != nil {
		return err
	}
	if len(data) > maxManifestBytes {
		return fmt.Errorf("manifest of %d bytes exceeds %d; back up fewer topics at a time", len(data), maxManifestBytes)
	}
	if err := syncDir(filepath.Join(d.path, chunksDir)); err != nil {
		return err
	}
	at := filepath.Join(d.path, backupsDir)
	f, err := os.OpenFile(filepath.Join(at, m.ID+partial), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(at, m.ID+partial), filepath.Join(at, m.ID+whole)); err != nil {
		return err
	}
	return syncDir(at)
}

func (d Dir) chunkPath(sum string) string {
	return filepath.Join(d.path, chunksDir, filepath.Base(sum)+chunkEnd)
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

package backup

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// tempPrefix begins the names of files that are being written.
const tempPrefix = "new-"

// Dir is the store in a local directory.
type Dir string

// String returns the path.
func (d Dir) String() string { return string(d) }

func (d Dir) path(name string) string { return filepath.Join(string(d), filepath.FromSlash(name)) }

// Draft creates a file among the chunks.
func (d Dir) Draft() (Draft, error) {
	for _, name := range []string{backupsDir, chunksDir} {
		if err := os.MkdirAll(d.path(name), 0o750); err != nil {
			return nil, err
		}
	}
	f, err := os.CreateTemp(d.path(chunksDir), tempPrefix)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(0o640); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return dirDraft{f, d}, nil
}

type dirDraft struct {
	*os.File
	d Dir
}

// Commit syncs the file and its name.
func (f dirDraft) Commit(_ context.Context, name string) error {
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Discard())
	}
	if err := f.Close(); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	path := f.d.path(name)
	if err := os.Rename(f.Name(), path); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return vfs.OS{}.SyncDir(filepath.Dir(path))
}

// Discard removes the file.
func (f dirDraft) Discard() error { return errors.Join(f.Close(), os.Remove(f.Name())) }

// Open opens a file.
func (d Dir) Open(_ context.Context, name string, _ int64) (io.ReadSeekCloser, error) {
	return os.Open(d.path(name))
}

// List lists one directory: the prefix contains its name. A directory that does not exist is empty.
func (d Dir) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		err := d.each(prefix, func(e os.DirEntry) (bool, error) {
			name := filepath.Base(e.Name())
			info, err := e.Info()
			switch {
			case ctx.Err() != nil:
				return false, context.Cause(ctx)
			case errors.Is(err, fs.ErrNotExist): // removed meanwhile
				return true, nil
			case err != nil:
				return false, err
			case !info.Mode().IsRegular() || strings.HasPrefix(name, tempPrefix):
				return true, nil
			}
			return yield(Object{prefix[:strings.LastIndexByte(prefix, '/')+1] + name, info.Size(), info.ModTime()}, nil), nil
		})
		if err != nil {
			yield(Object{}, err)
		}
	}
}

// each calls f with the entries below a prefix until it returns false.
func (d Dir) each(prefix string, f func(os.DirEntry) (bool, error)) error {
	at := strings.LastIndexByte(prefix, '/') + 1
	entries, err := os.ReadDir(d.path(prefix[:at]))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix[at:]) {
			continue
		}
		if more, err := f(e); err != nil || !more {
			return err
		}
	}
	return nil
}

// Remove removes a file.
func (d Dir) Remove(_ context.Context, name string) error {
	if err := os.Remove(d.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Tidy removes drafts that were last written before a time.
func (d Dir) Tidy(ctx context.Context, before time.Time) error {
	return d.each(chunksDir+"/"+tempPrefix, func(e os.DirEntry) (bool, error) {
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			return true, d.Remove(ctx, chunksDir+"/"+e.Name())
		}
		return true, nil
	})
}

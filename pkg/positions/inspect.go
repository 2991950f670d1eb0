package positions

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Report is the result of Inspect.
type Report struct {
	Snapshot // as a start of the node would find it
	Number   uint64
	// Files are the existing files, in a fixed order.
	Files []File
	// Damage is the unreadable part; nil if none. Corrupt reports that it had been on disk and
	// is not a torn write.
	Damage  error
	Corrupt bool
	// Unreadable reports that no snapshot is intact; Snapshot is empty.
	Unreadable bool
}

// File is one file of the positions.
type File struct {
	Name  string
	Bytes int64
	Error error // why a snapshot's file cannot be used; nil if it can
}

// Inspect reads the channel positions in a replica's directory without changing anything.
// If there are none, the error wraps fs.ErrNotExist. The report includes damage.
func Inspect(fsys vfs.FS, dir string) (Report, error) {
	var r Report
	p, snap, err := openFiles(fsys, dir)
	switch {
	case err == nil:
		r.Damage, r.Corrupt = p.damaged, p.corrupt
	case fate.Of(err) == fate.Corrupt:
		r.Damage, r.Corrupt, r.Unreadable = err, true, true
	default:
		return r, err
	}
	r.Snapshot, r.Number = snap, p.number
	for i, name := range []string{slot0, slot1, journalName(0), journalName(1)} {
		info, err := fsys.Stat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return r, err
		}
		f := File{Name: name, Bytes: info.Size()}
		if i < len(p.made) {
			_, _, _, f.Error = p.read(i)
		}
		r.Files = append(r.Files, f)
	}
	if len(r.Files) == 0 {
		return r, &fs.PathError{Op: "read channel positions in", Path: dir, Err: fs.ErrNotExist}
	}
	return r, nil
}

// Reset makes all channels of a replica start at the log's start, whatever positions are
// stored. The old files are kept under other names. The node must not run.
func Reset(fsys vfs.FS, dir string) error {
	p, _, err := openFiles(fsys, dir)
	if err != nil && fate.Of(err) != fate.Corrupt {
		return err
	}
	return startOver(p, Snapshot{Lost: true})
}

// Move makes a channel of a replica start at an offset, forward or back. The old files are
// kept under other names. The node must not run. Damaged positions and channels without a stored
// position are refused with an error.
func Move(fsys vfs.FS, dir, name string, to seq.Offset) error {
	p, snap, err := openFiles(fsys, dir)
	if err != nil {
		return err
	}
	i, found := snap.find(name)
	if !found {
		return fmt.Errorf("channel %q: %w", name, failure.ChannelNotFound)
	}
	snap.Channels[i].Moves++
	snap.Channels[i].Position = position.Position{Floor: to}
	return startOver(p, snap)
}

// startOver stores a snapshot as the first of a new series, and keeps the files of p under other
// names.
func startOver(p *files, s Snapshot) error {
	if err := p.setAside(); err != nil {
		return err
	}
	fresh := &files{fs: p.fs, dir: p.dir, journal: journal{fs: p.fs, dir: p.dir}}
	return fresh.Save(s)
}

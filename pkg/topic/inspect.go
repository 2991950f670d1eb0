package topic

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// PositionsReport is the result of InspectPositions.
type PositionsReport struct {
	Snapshot // as a start of the node would find it
	Number   uint64
	// Files are the existing files, in a fixed order.
	Files []PositionsFile
	// Damage is the unreadable part; nil if none. Corrupt reports that it had been on disk and
	// is not a torn write.
	Damage  error
	Corrupt bool
	// Unreadable reports that no snapshot is intact; Snapshot is empty.
	Unreadable bool
}

// PositionsFile is one file of the positions.
type PositionsFile struct {
	Name  string
	Bytes int64
	Error error // why a snapshot's file cannot be used; nil if it can
}

// InspectPositions reads the channel positions in a replica's directory without changing anything.
// If there are none, the error wraps fs.ErrNotExist. The report includes damage.
func InspectPositions(fsys vfs.FS, dir string) (PositionsReport, error) {
	var r PositionsReport
	p, snap, err := OpenPositions(fsys, dir)
	switch {
	case err == nil:
		r.Damage, r.Corrupt = p.damaged, p.corrupt
	case fate.Of(err) == fate.Corrupt:
		r.Damage, r.Corrupt, r.Unreadable = err, true, true
	default:
		return r, err
	}
	r.Snapshot, r.Number = snap, p.number
	for i, name := range []string{positionsSlot0, positionsSlot1, journalName(0), journalName(1)} {
		info, err := fsys.Stat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return r, err
		}
		f := PositionsFile{Name: name, Bytes: info.Size()}
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

// ResetPositions makes all channels of a replica start at the log's start, whatever positions are
// stored. The old files are kept under other names. The node must not run.
func ResetPositions(fsys vfs.FS, dir string) error {
	p, _, err := OpenPositions(fsys, dir)
	if err != nil && fate.Of(err) != fate.Corrupt {
		return err
	}
	return startOver(p, Snapshot{Lost: true})
}

// MovePositions makes a channel of a replica start at an offset, forward or back. The old files are
// kept under other names. The node must not run. Damaged positions and channels without a stored
// position are refused with an error.
func MovePositions(fsys vfs.FS, dir, name string, to seq.Offset) error {
	p, snap, err := OpenPositions(fsys, dir)
	if err != nil {
		return err
	}
	i, found := snap.find(name)
	if !found {
		return fmt.Errorf("channel %q: %w", name, failure.ChannelNotFound)
	}
	snap.Channels[i].Moves++
	snap.Channels[i].Position = channel.Position{Floor: to}
	return startOver(p, snap)
}

// startOver stores a snapshot as the first of a new series, and keeps the files of p under other
// names.
func startOver(p *Positions, s Snapshot) error {
	if err := p.setAside(); err != nil {
		return err
	}
	fresh := &Positions{fs: p.fs, dir: p.dir, journal: journal{fs: p.fs, dir: p.dir}}
	return fresh.Save(s)
}

package commitlog

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/brokerd/brokerd/pkg/commitlog/commitnote"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Recovery describes the result of Open.
type Recovery struct {
	// Cut are the torn tails that were truncated: remains, after a crash, of appends that were
	// never reported as durable.
	Cut []Cut
	// Damaged are the ranges that were durable and cannot be read. They were not changed; reading
	// them returns a CorruptionError. A replica with damage must not lead based on this log.
	Damaged []Damage
	// Rebuilt are segments that had no valid index and were read completely.
	Rebuilt []string
	// CheckpointLost reports that the checkpoint was damaged. Its content is then known only as
	// far as complete segments provide it.
	CheckpointLost bool

	scanned int64 // segment bytes read
}

// Clean reports whether nothing was lost, truncated or damaged.
func (r Recovery) Clean() bool {
	return len(r.Cut) == 0 && len(r.Damaged) == 0 && !r.CheckpointLost
}

func (a *analysis) report() Recovery {
	r := Recovery{
		Cut: a.cuts, Damaged: slices.Clone(a.gaps),
		CheckpointLost: a.noteLost, scanned: a.scanned,
	}
	for _, f := range a.segments {
		r.Damaged = append(r.Damaged, f.damage...)
		if !f.trusted {
			r.Rebuilt = append(r.Rebuilt, f.path)
		}
	}
	slices.SortFunc(r.Damaged, func(x, y Damage) int {
		if x.From < y.From {
			return -1
		}
		return 1
	})
	return r
}

// repair does the work that the analysis found necessary. It syncs data that was read and is not
// known to be durable, before it counts as durable. A crash in between leaves files with the same
// result.
func (a *analysis) repair() error {
	changed := len(a.leftovers) > 0
	for _, f := range a.segments {
		if f.trusted || f.short && a.onDisk(f) {
			continue
		}
		changed = true
		if err := a.truncateTail(f); err != nil {
			return err
		}
	}
	for _, path := range a.leftovers {
		if err := a.fs.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if a.known > a.end { // it proves nothing, and must not at the next Open
		if err := commitnote.Reset(a.fs, a.dir, a.committedEnd(), a.endPos); err != nil {
			return err
		}
		a.commitNote = commitnote.Noted{Committed: a.committedEnd(), Position: a.endPos, Next: 1}
	}
	if changed {
		return a.fs.SyncDir(a.dir)
	}
	return nil
}

// onDisk reports whether all of a segment, and its name, is known to be synced: by the owner, or by
// the checkpoint.
func (a *analysis) onDisk(f *found) bool {
	return a.synced || a.noted && !a.note.cutting && f.base < f.end && f.end <= a.note.durable
}

// truncateTail truncates a segment after its last intact batch, syncs it, and writes its index. A
// file with damage at its end is not changed, and a short one keeps the reserved space after its
// batches.
func (a *analysis) truncateTail(f *found) error {
	file, err := a.fs.OpenReadWrite(f.path)
	if err != nil {
		return err
	}
	if !f.keep && !f.short && f.fileSize > f.size {
		err = file.Truncate(f.size)
	}
	if err == nil {
		err = file.SyncData()
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil || f.keep || f.short {
		return err
	}
	s := newSegment(f.path, &f.contents)
	s.pin(f.entries)
	if err := s.writeIndex(a.fs, f.epochs); err != nil && !vfs.LacksRoom(err) {
		return err
	}
	return nil
}

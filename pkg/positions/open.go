package positions

import (
	"errors"
	"fmt"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// KeeperOptions describe a Keeper.
type KeeperOptions struct {
	FS  vfs.FS
	Dir string // of the replica
	// End is the log's. Stored positions of messages beyond it are erased, because other messages
	// will get these offsets.
	End    seq.Offset
	Source Source
	// Damaged is called if stored positions are damaged. lost: none is intact, and every channel
	// starts at the log's start. Otherwise an older snapshot is used. Either way, finished messages
	// are delivered again and none is skipped.
	Damaged func(err error, lost bool)
	// Salvage makes OpenKeeper succeed if positions were stored and none is intact. The damaged
	// files are kept under other names.
	Salvage bool
	// Unsaved, if set, signals that Checkpoint has work to do, once until it is called. It is
	// called with locks held and must not block.
	Unsaved func()
	// United is called when Apart becomes false.
	United func()
}

// OpenKeeper opens the positions in a replica's directory for a leader, and returns what is stored.
// If positions were stored and none is intact, the error is marked fate.Corrupt unless
// KeeperOptions.Salvage is set.
func OpenKeeper(o KeeperOptions) (*Keeper, Snapshot, error) {
	files, snap, err := openFor(&o)
	if err != nil {
		return nil, Snapshot{}, err
	}
	if snap, err = forgetBeyond(files, snap, o.End); err != nil {
		return nil, Snapshot{}, err
	}
	if files.damaged != nil {
		o.Damaged(files.damaged, false)
	}
	return &Keeper{source: o.Source, dirty: marker{onSet: o.Unsaved}, united: o.United, files: files}, snap, nil
}

// openFor opens the stored positions for a leader.
func openFor(o *KeeperOptions) (*files, Snapshot, error) {
	files, snap, err := openFiles(o.FS, o.Dir)
	switch {
	case err == nil && files.number == 0 && o.End > 0: // no channel's start was ever stored
		snap.Lost = true
		err = files.setAside()
	case err == nil && !files.corrupt && (files.damaged != nil || files.number == 1) && o.End > 0:
		// The newest snapshot may be damaged, or missing without a trace, and channels with it.
		snap.Lost = true
	case err == nil && files.corrupt && !o.Salvage:
		err = fate.Mark(fmt.Errorf("channel positions: %w", files.damaged), fate.Corrupt)
	case err != nil && files != nil && o.Salvage:
		o.Damaged(err, true)
		snap.Lost = true
		err = files.setAside()
	}
	if err != nil {
		return nil, Snapshot{}, err
	}
	files.journal.setSnapshot(0) // a leader applies no snapshot
	return files, snap, nil
}

// forgetBeyond returns the part of a snapshot below the log's end. The rest is erased from disk:
// other messages will get these offsets, and a killed process must not find them finished.
func forgetBeyond(files *files, snap Snapshot, end seq.Offset) (Snapshot, error) {
	if !snap.reaches(end) {
		return snap, nil
	}
	snap = snap.below(end)
	if err := errors.Join(files.Begin(), files.Save(snap)); err != nil {
		return snap, fmt.Errorf("drop positions beyond the log end: %w", err)
	}
	return snap, nil
}

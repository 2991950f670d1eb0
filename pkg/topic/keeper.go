package topic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/fate"
)

// errPartitionClosed is returned for what would have to be stored after a
// partition was closed: its directory belongs to another by then.
var errPartitionClosed = fate.Refuse("the partition is not served here any more")

// keeper stores a partition's positions, and shares them with the other
// replicas while there are any.
type keeper struct {
	log      *commitlog.Log
	snapshot func() Snapshot // what there is to keep now
	dirty    marker          // some position changed since the last checkpoint
	sharing  outbox
	apart    atomic.Bool // not every in-sync replica has had a snapshot in this term
	united   func()      // is called when apart becomes false

	saving    sync.Mutex // held over a checkpoint's write; guards what follows
	positions *Positions
	closed    bool
	last      *shared // what was shared last; nil: nothing since there is somebody to share with
	told      uint32  // snapshots shared
}

// shared is a snapshot on its way to the other replicas.
type shared struct {
	done chan struct{} // closed when err is set
	err  error
}

// Checkpoint stores the positions if any changed since the last time, and
// shares them, without waiting for that. On an error the stored version before
// stays good and the next call tries again.
func (k *keeper) Checkpoint() error {
	_, err := k.store()
	if errors.Is(err, errPartitionClosed) {
		return nil // it was the last thing that Close did
	}
	return err
}

// Flush stores and shares the positions as they are now, and returns once every
// in-sync replica has them. Calls at the same time have one snapshot in common.
// An error that is not marked fate.Refused leaves open who has them.
func (k *keeper) Flush(ctx context.Context) error {
	s, err := k.store()
	if err != nil || s == nil {
		return err
	}
	select {
	case <-s.done:
		if s.err != nil {
			return fmt.Errorf("share positions: %w", s.err)
		}
		return nil
	case <-ctx.Done():
		return fate.Mark(fmt.Errorf("share positions: %w", context.Cause(ctx)), fate.Uncertain)
	}
}

// store stores and shares what changed. It returns what was shared last, which
// covers every change before the call; nil: there is nobody to share with.
func (k *keeper) store() (*shared, error) {
	k.saving.Lock()
	defer k.saving.Unlock()
	if k.closed {
		return nil, errPartitionClosed
	}
	others := k.sharing.shared()
	if !others {
		k.last = nil
	}
	changed := k.dirty.clear()
	if !changed && (!others || k.last != nil) {
		return k.last, nil
	}
	var snap Snapshot
	var image []byte
	err := k.positions.Begin()
	switch {
	case err != nil:
	case others:
		snap, image, err = k.share()
	default:
		snap = k.snapshot()
	}
	if err == nil && changed {
		err = k.save(snap, image)
	}
	if err != nil {
		k.dirty.mark()
		return nil, fmt.Errorf("store positions: %w", err)
	}
	return k.last, nil
}

// share makes a snapshot and shares it.
func (k *keeper) share() (Snapshot, []byte, error) {
	k.sharing.begin()
	defer k.sharing.end()
	snap := k.snapshot()
	k.told++
	data, err := appendPositions(nil, uint64(stampOf(k.sharing.to.Epoch(), k.told)), snap)
	if err != nil {
		return snap, nil, err
	}
	s := &shared{done: make(chan struct{})}
	k.last = s
	k.sharing.to.SharePositions(data, func(err error) {
		s.err = err
		close(s.done)
		if err == nil && k.apart.CompareAndSwap(true, false) {
			k.united()
		}
	})
	return snap, data, nil
}

// save stores a snapshot as far as it speaks of messages below the durable end.
// What lies beyond may be lost by a power cut, and other messages would then
// take its offsets: they must not count as finished. image is the encoded
// snapshot, if there is one.
func (k *keeper) save(snap Snapshot, image []byte) error {
	durable := k.log.DurableEnd()
	switch {
	case snap.reaches(durable):
		k.dirty.mark() // there will be more to say once the rest is durable
		k.positions.Renote(snap, durable)
		return k.positions.Save(snap.below(durable))
	case image != nil:
		return k.positions.saveCopy(image)
	}
	return k.positions.Save(snap)
}

// serve starts to share with others and tells them what there is. They may not
// know it: what the leader before shared last may have reached this node alone.
// Until they do, an ordered channel must not go on from there, or the next
// leader would lead it back.
func (k *keeper) serve(to Sharer) {
	k.saving.Lock()
	defer k.saving.Unlock()
	k.sharing.to = to
	if !k.sharing.shared() {
		return
	}
	k.apart.Store(true)
	if _, _, err := k.share(); err != nil {
		k.dirty.mark() // the next checkpoint tries again, and says so
	}
}

// close stores the positions for the last time and shares them with nobody.
func (k *keeper) close() error {
	k.saving.Lock()
	defer k.saving.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	var err error
	if k.dirty.clear() {
		err = errors.Join(k.positions.Begin(), k.save(k.snapshot(), nil))
	}
	if err = errors.Join(err, k.positions.Close()); err != nil {
		return fmt.Errorf("store positions: %w", err)
	}
	return nil
}

// note keeps a change of an ordered channel for a process that is killed before
// the next checkpoint. What could not be noted does not count here.
func (k *keeper) note(channel string, change []byte) error {
	k.dirty.mark()
	return k.positions.Note(channel, change)
}

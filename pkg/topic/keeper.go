package topic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/sharing"
)

// errPartitionClosed is returned for what would have to be stored after a
// partition was closed: its directory belongs to another by then.
var errPartitionClosed = fate.Refuse("partition no longer served by this node")

// keeper stores a partition's positions, and shares them with the other
// replicas while there are any: a snapshot, and then updates of it where snapshots
// would be large.
type keeper struct {
	source  source
	dirty   marker // some position changed since the last checkpoint
	sharing sharing.Outbox
	apart   atomic.Bool // not every in-sync replica has had a snapshot in this term
	united  func()      // is called when apart becomes false

	saving    sync.Mutex // held over a checkpoint's write; guards what follows
	positions *Positions
	closed    bool
	last      *shared // what was shared last; nil: nothing since there is someone to share with
	told      uint32  // snapshots and updates shared
	partial   bool    // what is stored, and was shared if there are others, can be updated
}

// source is where a keeper gets the positions from.
type source interface {
	// current returns the positions as they are. Updates follow it.
	current() Snapshot
	// changes returns what changed since current or changes was called. It returns
	// false where that is not known, or a snapshot is as good.
	changes() (update, bool)
}

// shared is a snapshot or an update on its way to the other replicas.
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

// Flush stores and shares the current positions and returns once every in-sync replica has
// them. Concurrent calls share one snapshot. After an error not marked fate.Refused it is
// unknown which replicas have them.
func (k *keeper) Flush(ctx context.Context) error {
	s, err := k.store()
	if err != nil || s == nil {
		return err
	}
	select {
	case <-s.done:
		if s.err != nil {
			return fmt.Errorf("send positions to followers: %w", s.err)
		}
		return nil
	case <-ctx.Done():
		return fate.Mark(fmt.Errorf("send positions to followers: %w", context.Cause(ctx)), fate.Uncertain)
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
	others := k.sharing.Shared()
	if !others {
		k.last = nil
	}
	changed := k.dirty.clear()
	if !changed && (!others || k.last != nil) {
		return k.last, nil
	}
	if others && k.last == nil {
		k.partial = false
	}
	err := errRagged
	if k.partial && k.positions.takesUpdates() {
		err = k.storeUpdate(others)
	}
	if errors.Is(err, errRagged) {
		err = k.storeSnapshot(others, changed)
	}
	if err != nil {
		k.dirty.mark()
		k.partial = false
		return nil, fmt.Errorf("store positions: %w", err)
	}
	return k.last, nil
}

// storeSnapshot shares the positions if there are others, and stores them if they
// changed.
func (k *keeper) storeSnapshot(others, changed bool) error {
	err := k.positions.Begin()
	if err != nil {
		return err
	}
	var snap Snapshot
	var image []byte
	if others {
		snap, image, err = k.share()
	} else {
		snap = k.source.current()
	}
	switch {
	case err != nil || !changed:
		k.partial = false // what is stored is older
		return err
	case image != nil:
		err = k.positions.saveCopy(image)
	default:
		err = k.positions.Save(snap)
	}
	k.partial = err == nil
	return err
}

// storeUpdate shares and stores what changed since the last time. It returns
// errRagged, and has done nothing, where a snapshot is to be stored instead.
func (k *keeper) storeUpdate(others bool) error {
	data, fold, err := k.shareUpdate(others)
	if err != nil {
		return err
	}
	if err := k.positions.Update(data); err != nil {
		return err
	}
	if !k.positions.grown() {
		return nil
	}
	image, err := k.positions.Fold()
	if err == nil && others {
		renumberPositions(image, uint64(k.stamp()))
		fold(image)
	}
	return err
}

// stamp numbers what was shared last.
func (k *keeper) stamp() stamp { return stampOf(k.sharing.To.Epoch(), k.told) }

// shareUpdate makes an update and shares it, if there are others: see
// Sharer.ShareUpdate.
func (k *keeper) shareUpdate(others bool) (data []byte, fold func([]byte), err error) {
	if others {
		k.sharing.Begin()
		defer k.sharing.End()
	}
	u, ok := k.source.changes()
	if !ok {
		return nil, nil, errRagged
	}
	if others {
		k.told++
		u.stamp = k.stamp()
	}
	if data, err = u.encode(); err != nil {
		return nil, nil, errRagged // it is too large
	}
	if others {
		fold = k.sharing.To.ShareUpdate(data, k.announce())
	}
	return data, fold, nil
}

// announce returns what is called once every in-sync replica has what is shared
// now.
func (k *keeper) announce() (done func(error)) {
	s := &shared{done: make(chan struct{})}
	k.last = s
	return func(err error) {
		s.err = err
		close(s.done)
		if err == nil && k.apart.CompareAndSwap(true, false) {
			k.united()
		}
	}
}

// share makes a snapshot and shares it.
func (k *keeper) share() (Snapshot, []byte, error) {
	k.sharing.Begin()
	defer k.sharing.End()
	snap := k.source.current()
	k.told++
	data, err := appendPositions(nil, uint64(k.stamp()), snap)
	if err != nil {
		return snap, nil, err
	}
	k.sharing.To.SharePositions(data, k.announce())
	return snap, data, nil
}

// serve starts to share with others and tells them what there is. They may not
// know it: what the leader before shared last may have reached this node alone.
// Until they do, an ordered channel must not continue from there, or the next
// leader would lead it back.
func (k *keeper) serve(to sharing.Sharer) {
	k.saving.Lock()
	defer k.saving.Unlock()
	k.sharing.To = to
	if !k.sharing.Shared() {
		return
	}
	k.apart.Store(true)
	k.partial = false
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
		if err = k.positions.Begin(); err == nil {
			err = k.positions.Save(k.source.current())
		}
	}
	if err = errors.Join(err, k.positions.Close()); err != nil {
		return fmt.Errorf("store positions: %w", err)
	}
	return nil
}

// appendChange keeps a change of an ordered channel for a process that is killed before
// the next checkpoint. What could not be noted does not count here.
func (k *keeper) appendChange(change []byte) error {
	k.dirty.mark()
	return k.positions.Append(change)
}

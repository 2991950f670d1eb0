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

// errPartitionClosed refuses a store after a partition was closed: its directory may have another
// owner by then.
var errPartitionClosed = fate.Refuse("partition no longer served by this node")

// keeper stores a partition's positions, and shares them with the other replicas, if there are any:
// a snapshot, and then updates if snapshots would be large.
type keeper struct {
	source  source
	dirty   marker // some position changed since the last checkpoint
	sharing sharing.Outbox
	apart   atomic.Bool // not every in-sync replica has a snapshot of this term
	united  func()      // called when apart becomes false

	saving    sync.Mutex // held while a checkpoint is written; guards what follows
	positions *Positions
	closed    bool
	last      *shared // last share; nil: none since other replicas exist
	shared    uint32  // number of snapshots and updates shared
	partial   bool    // the stored, and shared, positions can be updated
}

// source provides a keeper with the positions.
type source interface {
	// current returns the current positions. Updates follow them.
	current() Snapshot
	// changes returns the changes since the last call of current or changes. It returns false if
	// they are not known, or a snapshot is just as small.
	changes() (update, bool)
}

// shared is a snapshot or an update in transit to the other replicas.
type shared struct {
	done chan struct{} // closed when err is set
	err  error
}

// Checkpoint stores the positions if any changed since the last call, and shares them without
// waiting for the other replicas. After an error the previously stored version is intact and the
// next call retries.
func (k *keeper) Checkpoint() error {
	_, err := k.store()
	if errors.Is(err, errPartitionClosed) {
		return nil // Close has stored them last
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

// store stores and shares changes. It returns the last share, which covers every change before the
// call; nil: there is no other replica.
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

// storeSnapshot shares the positions if there are other replicas, and stores them if they changed.
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
		k.partial = false // the stored positions are older
		return err
	case image != nil:
		err = k.positions.saveCopy(image)
	default:
		err = k.positions.Save(snap)
	}
	k.partial = err == nil
	return err
}

// storeUpdate shares and stores the changes since the last call. If a snapshot must be stored
// instead, it returns errRagged and has done nothing.
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

// stamp returns the stamp of the last share.
func (k *keeper) stamp() stamp { return stampOf(k.sharing.To.Epoch(), k.shared) }

// shareUpdate creates an update and shares it, if there are other replicas: see Sharer.ShareUpdate.
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
		k.shared++
		u.stamp = k.stamp()
	}
	if data, err = u.encode(); err != nil {
		return nil, nil, errRagged // the update is too large
	}
	if others {
		fold = k.sharing.To.ShareUpdate(data, k.announce())
	}
	return data, fold, nil
}

// announce returns the function to call once every in-sync replica has the current share.
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

// share creates a snapshot and shares it.
func (k *keeper) share() (Snapshot, []byte, error) {
	k.sharing.Begin()
	defer k.sharing.End()
	snap := k.source.current()
	k.shared++
	data, err := appendPositions(nil, uint64(k.stamp()), snap)
	if err != nil {
		return snap, nil, err
	}
	k.sharing.To.SharePositions(data, k.announce())
	return snap, data, nil
}

// serve begins to share with other replicas and sends them the current positions. They may not have
// them: the last share of the previous leader may have reached only this node. Until they do, an
// ordered channel must not continue from there, or the next leader would move it back.
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
		k.dirty.mark() // the next checkpoint retries, and reports it
	}
}

// close stores the positions for the last time without sharing them.
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

// appendChange records a change of an ordered channel in case the process is killed before the next
// checkpoint. A change that cannot be recorded does not count on this node.
func (k *keeper) appendChange(change []byte) error {
	k.dirty.mark()
	return k.positions.Append(change)
}

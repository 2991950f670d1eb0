package positions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/sharing"
)

// errClosed refuses a store after a Keeper or Standby was closed: its directory may have another
// owner by then.
var errClosed = fate.Refuse("partition no longer served by this node")

// Keeper stores the positions of a led partition, and shares them with the other replicas, if there
// are any: a snapshot, and then updates if snapshots would be large. Its methods are safe for
// concurrent use.
type Keeper struct {
	source  Source
	dirty   marker // some position changed since the last checkpoint
	sharing sharing.Outbox
	apart   atomic.Bool   // not every in-sync replica has a snapshot of this term
	united  func()        // called when apart becomes false
	moves   atomic.Uint32 // number of operators' moves of channels since it was opened

	saving  sync.Mutex // held while a checkpoint is written; guards what follows
	files   *files
	closed  bool
	last    *shared // last share; nil: none since other replicas exist
	shared  uint32  // number of snapshots and updates shared
	partial bool    // the stored, and shared, positions can be updated
}

// Source provides a Keeper with the positions.
type Source interface {
	// Current returns the current positions, with channels in any order. Updates follow them.
	Current() Snapshot
	// Changes returns the changes since the last call of Current or Changes. It returns false if
	// they are not known, or a snapshot is just as small.
	Changes() (Update, bool)
}

// marker is a flag that is usually already set when it is set.
type marker struct {
	set   atomic.Bool
	onSet func() // called each time that the flag becomes set; may be nil
}

func (f *marker) mark() {
	if !f.set.Load() && !f.set.Swap(true) && f.onSet != nil {
		f.onSet()
	}
}

// clear clears the flag and reports whether it was set.
func (f *marker) clear() bool { return f.set.Swap(false) }

// Apart reports that not every in-sync replica has positions of this term yet.
func (k *Keeper) Apart() bool { return k.apart.Load() }

// MarkDirty records that some position changed: the next Checkpoint stores it.
func (k *Keeper) MarkDirty() { k.dirty.mark() }

// NextMove returns a number for an operator's move of a channel: see Channel. It is larger than
// those of earlier moves, including those under earlier leaders.
func (k *Keeper) NextMove() uint64 { return uint64(stampOf(k.sharing.To.Epoch(), k.moves.Add(1))) }

// Shared reports whether there are other replicas.
func (k *Keeper) Shared() bool { return k.sharing.Shared() }

// Advance shares a change with the other replicas, at once or after the snapshot that is being
// created.
func (k *Keeper) Advance(c sharing.Change) { k.sharing.Advance(c) }

// shared is a snapshot or an update in transit to the other replicas.
type shared struct {
	done chan struct{} // closed when err is set
	err  error
}

// Checkpoint stores the positions if any changed since the last call, and shares them without
// waiting for the other replicas. After an error the previously stored version is intact and the
// next call retries.
func (k *Keeper) Checkpoint() error {
	err := k.Store()
	if errors.Is(err, errClosed) {
		return nil // Close has stored them last
	}
	return err
}

// Store is Checkpoint, except that it fails after Close.
func (k *Keeper) Store() error {
	_, err := k.store()
	return err
}

// Flush stores and shares the current positions and returns once every in-sync replica has
// them. Concurrent calls share one snapshot. After an error not marked fate.Refused it is
// unknown which replicas have them.
func (k *Keeper) Flush(ctx context.Context) error {
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
func (k *Keeper) store() (*shared, error) {
	k.saving.Lock()
	defer k.saving.Unlock()
	if k.closed {
		return nil, errClosed
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
	if k.partial && k.files.takesUpdates() {
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

// current returns the current positions.
func (k *Keeper) current() Snapshot {
	s := k.source.Current()
	slices.SortFunc(s.Channels, compareNames)
	return s
}

// storeSnapshot shares the positions if there are other replicas, and stores them if they changed.
func (k *Keeper) storeSnapshot(others, changed bool) error {
	err := k.files.Begin()
	if err != nil {
		return err
	}
	var snap Snapshot
	var image []byte
	if others {
		snap, image, err = k.share()
	} else {
		snap = k.current()
	}
	switch {
	case err != nil || !changed:
		k.partial = false // the stored positions are older
		return err
	case image != nil:
		err = k.files.saveCopy(image)
	default:
		err = k.files.Save(snap)
	}
	k.partial = err == nil
	return err
}

// storeUpdate shares and stores the changes since the last call. If a snapshot must be stored
// instead, it returns errRagged and has done nothing.
func (k *Keeper) storeUpdate(others bool) error {
	data, fold, err := k.shareUpdate(others)
	if err != nil {
		return err
	}
	if err := k.files.Update(data); err != nil {
		return err
	}
	if !k.files.grown() {
		return nil
	}
	image, err := k.files.Fold()
	if err == nil && others {
		renumber(image, uint64(k.stamp()))
		fold(image)
	}
	return err
}

// stamp returns the stamp of the last share.
func (k *Keeper) stamp() stamp { return stampOf(k.sharing.To.Epoch(), k.shared) }

// shareUpdate creates an update and shares it, if there are other replicas: see Sharer.ShareUpdate.
func (k *Keeper) shareUpdate(others bool) (data []byte, fold func([]byte), err error) {
	if others {
		k.sharing.Begin()
		defer k.sharing.End()
	}
	u, ok := k.source.Changes()
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
func (k *Keeper) announce() (done func(error)) {
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
func (k *Keeper) share() (Snapshot, []byte, error) {
	k.sharing.Begin()
	defer k.sharing.End()
	snap := k.current()
	k.shared++
	data, err := appendSnapshot(nil, uint64(k.stamp()), snap)
	if err != nil {
		return snap, nil, err
	}
	k.sharing.To.SharePositions(data, k.announce())
	return snap, data, nil
}

// Serve gives the Keeper the term that it shares with, and sends the other replicas the current
// positions. It is called once, before anything else. The replicas may not have these positions:
// the last share of the previous leader may have reached only this node. Until they do, an ordered
// channel must not continue from there, or the next leader would move it back: see Apart.
func (k *Keeper) Serve(to sharing.Sharer) {
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

// Close stores the positions for the last time without sharing them. Nothing is written afterwards.
func (k *Keeper) Close() error {
	k.saving.Lock()
	defer k.saving.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	var err error
	if k.dirty.clear() {
		if err = k.files.Begin(); err == nil {
			err = k.files.Save(k.current())
		}
	}
	if err = errors.Join(err, k.files.Close()); err != nil {
		return fmt.Errorf("store positions: %w", err)
	}
	return nil
}

// Append records an encoded change of an ordered channel in case the process is killed before the
// next checkpoint. A change that cannot be recorded does not count on this node.
func (k *Keeper) Append(change []byte) error {
	k.dirty.mark()
	return k.files.Append(change)
}

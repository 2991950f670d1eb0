// Package sharing sends a leader's positions to the other replicas in the order in which they
// were decided. It does not interpret positions.
package sharing

import (
	"sync"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Sharer sends a leader's positions to the other replicas. It calls every done
// exactly once, possibly inside the call if there is no replica to wait for:
// with nil once every in-sync replica has what was shared, with an error if the
// term ends before. What is shared arrives in the order of the calls.
type Sharer interface {
	// Shared reports whether other replicas exist. It is called with locks held and
	// must not wait.
	Shared() bool
	// Epoch returns the term's epoch.
	Epoch() seq.Epoch
	// SharePositions shares a snapshot, which replaces everything shared before.
	// The Sharer takes ownership of the bytes. done may be nil.
	SharePositions(snapshot []byte, done func(error))
	// ShareUpdate shares an update of what was shared before. The Sharer takes
	// ownership of the bytes. fold replaces everything shared up to the update by a
	// snapshot, for replicas that do not have it yet. It may be called later; the
	// Sharer takes ownership of its bytes.
	ShareUpdate(update []byte, done func(error)) (fold func(snapshot []byte))
	// ShareAdvance shares a small change to what was shared before. The Sharer
	// takes ownership of the bytes.
	ShareAdvance(change []byte, done func(error))
}

// Outbox keeps shares in order. A snapshot must not reach the replicas after a
// change that it does not include, because it would undo the change there. A
// change that is decided while a snapshot is being created is therefore sent
// after that snapshot; one that was decided before is included: see Hold of
// pkg/channel.
type Outbox struct {
	To Sharer // nil: none yet; set once, before anything is published

	mu      sync.Mutex // guards what follows
	making  bool       // a snapshot is being made
	waiting []Change
}

// Change is a change, and the function that gets its outcome: see Sharer.
type Change struct {
	Data []byte
	Done func(error)
}

// Shared reports whether there are other replicas.
func (o *Outbox) Shared() bool { return o.To != nil && o.To.Shared() }

// Advance shares a change, at once or after the snapshot that is being created.
func (o *Outbox) Advance(c Change) {
	o.mu.Lock()
	if o.making {
		o.waiting = append(o.waiting, c)
		o.mu.Unlock()
		return
	}
	o.mu.Unlock()
	o.To.ShareAdvance(c.Data, c.Done)
}

// Begin reports that a snapshot is being created, by one caller at a time.
func (o *Outbox) Begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.making = true
}

// End reports that the snapshot was shared, or will not be.
func (o *Outbox) End() {
	for {
		o.mu.Lock()
		waiting := o.waiting
		o.waiting = nil
		o.making = len(waiting) > 0
		o.mu.Unlock()
		if len(waiting) == 0 {
			return
		}
		for _, c := range waiting {
			o.To.ShareAdvance(c.Data, c.Done)
		}
	}
}

package topic

import (
	"sync"

	"github.com/brokerd/brokerd/pkg/seq"
)

// Sharer takes a leader's positions to the other replicas. Every done is called
// exactly once, perhaps inside the call where there is nobody to wait for: with
// nil once every in-sync replica has what was shared, with an error if the term
// ends before. What is shared arrives in the order of the calls.
type Sharer interface {
	// Shared says whether other replicas exist. It is called with locks held and
	// must not wait.
	Shared() bool
	// Epoch returns the term's epoch.
	Epoch() seq.Epoch
	// SharePositions gives a snapshot, which replaces what was shared before it.
	// The bytes are the Sharer's from then on. done may be nil.
	SharePositions(snapshot []byte, done func(error))
	// ShareUpdate gives an update of what was shared before it. The bytes are the
	// Sharer's from then on. fold puts a snapshot in place of everything that was
	// shared up to the update, for those who do not have that yet. It may be called
	// later, and its bytes are the Sharer's.
	ShareUpdate(update []byte, done func(error)) (fold func(snapshot []byte))
	// ShareAdvance gives a small change to what was shared before it. The bytes
	// are the Sharer's from then on.
	ShareAdvance(change []byte, done func(error))
}

// outbox keeps what is shared in order. A snapshot must not reach the replicas
// after a change that it does not know of, since it would undo it there. So a
// change that is decided while a snapshot is being made follows that snapshot;
// one that was decided before is in it: see channel.State.Hold.
type outbox struct {
	to Sharer // nil: nobody yet; set once, before anything is published

	mu      sync.Mutex // guards what follows
	making  bool       // a snapshot is being made
	waiting []change
}

// stamp numbers what is shared: snapshots of one term grow. It stands where a
// stored snapshot has its own number.
type stamp uint64

const stampBits = 32 // of a stamp that number the snapshots of one epoch

func stampOf(e seq.Epoch, n uint32) stamp { return stamp(uint64(e)<<stampBits | uint64(n)) }

// retells says whether s is of a snapshot that was told no later than one that
// is known, by the same leader.
func (s stamp) retells(known stamp) bool {
	return s>>stampBits == known>>stampBits && s <= known
}

type change struct {
	data []byte
	done func(error)
}

// shared says whether there are other replicas.
func (o *outbox) shared() bool { return o.to != nil && o.to.Shared() }

// advance shares a change, now or behind the snapshot that is being made.
func (o *outbox) advance(c change) {
	o.mu.Lock()
	if o.making {
		o.waiting = append(o.waiting, c)
		o.mu.Unlock()
		return
	}
	o.mu.Unlock()
	o.to.ShareAdvance(c.data, c.done)
}

// begin says that a snapshot is being made, by one caller at a time.
func (o *outbox) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.making = true
}

// end says that the snapshot was shared, or will not be.
func (o *outbox) end() {
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
			o.to.ShareAdvance(c.data, c.done)
		}
	}
}

package coord

import (
	"context"

	"github.com/brokerd/brokerd/pkg/seq"
)

// sharing is a share that is not yet at everyone who must have it.
type sharing struct {
	n     uint64 // its number
	quota bool   // there must be as many in sync as the topic asks for
	done  func(error)
	err   error
}

// Shared tells whether the partition has other replicas: sharing has somebody to
// go to. It takes no lock.
func (t *Term) Shared() bool { return len(*t.followers.Load()) > 0 }

// SharePositions has every replica store a snapshot of the channels' positions,
// also those that come later, until the next takes its place. done, if not nil,
// is called once every in-sync replica has stored it, without a lock, perhaps
// before SharePositions returns; with ErrUnknownOutcome when the term ends before.
// Calls of done come in the order of the shares. The snapshot is the term's.
func (t *Term) SharePositions(snapshot []byte, done func(error)) {
	t.share(sharing{n: t.shares.Snapshot(snapshot), done: done})
}

// ShareAdvance is SharePositions for a small change to the snapshots and changes
// before it. Followers keep it in memory and store it soon after. It is done only
// while as many replicas are in sync as the topic asks for. The change is the
// term's.
func (t *Term) ShareAdvance(change []byte, done func(error)) {
	t.share(sharing{n: t.shares.Change(change), quota: true, done: done})
}

func (t *Term) share(s sharing) {
	if s.done != nil {
		t.mu.Lock()
		t.sharing = append(t.sharing, s)
		t.releaseLocked()
		t.mu.Unlock()
	}
	for _, f := range *t.followers.Load() {
		f.rep.Share()
	}
}

// sharedLocked takes the shares off the list of which it is known what became of
// them.
func (t *Term) sharedLocked() []sharing {
	if len(t.sharing) == 0 {
		return nil
	}
	stored := t.sharing[len(t.sharing)-1].n
	for _, f := range *t.followers.Load() {
		if t.tracker.Counts(f.node) {
			stored = min(stored, f.holds.Shares)
		}
	}
	few := len(t.view.ISR) < t.view.MinISR
	n := 0
	for n < len(t.sharing) && (t.ended || t.sharing[n].n <= stored && !(few && t.sharing[n].quota)) {
		if t.ended {
			t.sharing[n].err = ErrUnknownOutcome
		}
		n++
	}
	done := t.sharing[:n:n]
	if t.sharing = t.sharing[n:]; len(t.sharing) == 0 {
		t.sharing = nil
	}
	return done
}

// Seal has the term take no more entries (Append answers ErrMoving) and returns
// once all that was taken is committed and every in-sync replica has it, knows it
// as committed, and has stored what was shared. On an error the term takes entries
// again, if it lives.
func (t *Term) Seal(ctx context.Context) error {
	t.mu.Lock()
	switch {
	case t.over != nil:
		defer t.mu.Unlock()
		return t.over
	case t.sealed != nil:
		t.mu.Unlock()
		return ErrMoving
	}
	sealed := make(chan struct{})
	t.sealed = sealed
	t.room.Broadcast()
	t.checkSealLocked()
	t.mu.Unlock()
	t.tell(false)
	select {
	case <-sealed:
	case <-ctx.Done():
		t.Unseal()
		return context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// Unseal has a sealed term take entries again.
func (t *Term) Unseal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sealed = nil
}

// checkSealLocked lets Seal return if there is nothing left to wait for.
func (t *Term) checkSealLocked() {
	if t.sealed == nil || !t.ended && !t.everywhereLocked() {
		return
	}
	select {
	case <-t.sealed:
	default:
		close(t.sealed)
	}
}

// everywhereLocked tells whether all that was taken and shared is wherever it must
// be.
func (t *Term) everywhereLocked() bool {
	end := t.o.Log.End()
	if t.forming != nil || t.appending || t.releasing || len(t.queue) > 0 || t.o.Log.CommittedEnd() < end {
		return false
	}
	last, _ := t.shares.Last()
	for _, f := range *t.followers.Load() {
		if t.tracker.Counts(f.node) && !f.has(end, last) {
			return false
		}
	}
	return true
}

// has tells whether the follower holds all of a log and its shares, and knows it
// as committed.
func (f *follower) has(end seq.Offset, shares uint64) bool {
	return !f.holds.At.IsZero() && f.holds.End >= end && f.holds.Committed >= end && f.holds.Shares >= shares
}

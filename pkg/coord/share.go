package coord

import (
	"context"

	"github.com/brokerd/brokerd/pkg/failure"
)

// sharing is a share that not every required replica has stored yet.
type sharing struct {
	n     uint64 // its number
	quota bool   // as many replicas must be in sync as the topic requires
	done  func(error)
	err   error
}

// sharings are these shares, in order. The term's lock guards them.
type sharings []sharing

// done returns the number up to which shares are complete. Later ones are not complete before
// replicas that join meanwhile have them. last is the newest.
func (s sharings) done(last uint64) uint64 {
	if len(s) > 0 {
		last = s[0].n - 1
	}
	return max(last, 1)
}

// popDecided removes the shares with a known outcome from the list.
func (s *sharings) popDecided(m *membership, ended bool) sharings {
	if len(*s) == 0 {
		return nil
	}
	all, n := *s, 0
	stored, few := m.stored(all[len(all)-1].n), m.few()
	for n < len(all) && (ended || all[n].n <= stored && (!few || !all[n].quota)) {
		if ended {
			all[n].err = failure.Unconfirmed
		}
		n++
	}
	if *s = all[n:]; len(*s) == 0 {
		*s = nil
	}
	return all[:n:n]
}

// Shared reports whether the partition has other replicas to share with. It is lock-free.
func (t *Term) Shared() bool { return len(t.members.followers()) > 0 }

// SharePositions makes every current and future replica store a snapshot of the channels'
// positions, until the next one replaces it. done, if not nil, is called once every in-sync
// replica has stored it, without a lock, possibly before SharePositions returns; with
// failure.Unconfirmed if the term ends first. Calls of done are in the order of the shares. The
// term takes ownership of the snapshot.
func (t *Term) SharePositions(snapshot []byte, done func(error)) {
	sharing{done: done}.start(t, t.shares.Snapshot, snapshot)
}

// ShareUpdate is SharePositions for a change to the snapshot and updates before it. fold
// replaces everything shared up to the update by an equivalent snapshot; replicas that have it
// do not receive it again. The term takes ownership of the snapshot. fold may be called at any
// time and has no effect once a later snapshot was shared.
func (t *Term) ShareUpdate(update []byte, done func(error)) (fold func(snapshot []byte)) {
	n := sharing{done: done}.start(t, t.shares.Update, update)
	return func(snapshot []byte) { t.shares.Fold(n, snapshot) }
}

// ShareAdvance is SharePositions for a small change to the snapshots and changes before it.
// Followers keep it in memory and store it soon after. It completes only while as many replicas are
// in sync as the topic requires. The term takes ownership of the change.
func (t *Term) ShareAdvance(change []byte, done func(error)) {
	sharing{quota: true, done: done}.start(t, t.shares.Change, change)
}

// start adds a share to a term and returns its number. Numbering and adding to the list are one
// step, so the list is in order.
func (s sharing) start(t *Term, add func([]byte) uint64, p []byte) uint64 {
	t.mu.Lock()
	s.n = add(p)
	if s.done != nil {
		t.sharing = append(t.sharing, s)
		t.releaseLocked()
	}
	t.mu.Unlock()
	for _, f := range t.members.followers() {
		f.rep.Share()
	}
	return s.n
}

// Seal makes the term refuse entries (Append returns failure.Moving) and returns once all accepted
// entries are committed and every in-sync replica has them, knows they are committed, and has
// stored what was shared. After an error the term accepts entries again, unless it has ended.
func (t *Term) Seal(ctx context.Context) error {
	t.mu.Lock()
	switch {
	case t.over != nil:
		defer t.mu.Unlock()
		return t.over
	case t.sealed != nil:
		t.mu.Unlock()
		return failure.Moving
	}
	sealed := make(chan struct{})
	t.sealed = sealed
	t.room.Broadcast()
	t.checkSealLocked()
	t.mu.Unlock()
	tell(t.members.followers(), false, 0)
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

// Unseal makes a sealed term accept entries again.
func (t *Term) Unseal() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sealed = nil
}

// checkSealLocked lets Seal return if there is nothing left to wait for.
func (t *Term) checkSealLocked() {
	if t.sealed == nil {
		return
	}
	end := t.o.Log.End()
	last, _ := t.shares.Last()
	busy := t.forming != nil || t.appender.runs || t.releasing || len(t.backlog.queue) > 0 || t.o.Log.CommittedEnd() < end
	if !t.ended && (busy || !t.members.everywhere(end, last)) {
		return
	}
	select {
	case <-t.sealed:
	default:
		close(t.sealed)
	}
}

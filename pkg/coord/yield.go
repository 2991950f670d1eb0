package coord

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Yield reports that another replica holds records that the leader's log lacks.
type Yield struct {
	Epoch seq.Epoch   // of the ended term
	To    meta.NodeID // the replica that holds more
	// LastEpoch and End are the leader's own, from before the term.
	LastEpoch seq.Epoch
	End       seq.Offset
}

// compare evaluates a follower's report on its log before any of it is truncated. False: nothing
// may be truncated.
//
// A follower that knows more as committed than this log holds proves that this log has lost
// records. A follower that merely holds more, as every log may that received a batch which no other
// replica got, proves nothing, except to a leader that does not know whether its disk has kept
// everything.
func (w watch) compare(s replication.Standing) bool {
	t := w.t
	t.mu.Lock()
	lost := s.Committed > t.o.Log.End()
	epoch, end := s.Epoch, s.End
	if f := w.f.said; f.Suspect { // what it appended before it yielded does not count
		epoch, end = min(epoch, f.LastEpoch), min(end, f.End)
	}
	waited := !t.members.alone.IsZero()
	if !lost && (!waited || !t.members.exceeded(epoch, end)) {
		if slices.Contains(t.members.view.ISR, w.f.node) {
			t.members.alone = time.Time{}
			t.appender.startLocked(nil)
		}
		t.mu.Unlock()
		if waited {
			t.reconsider(t.o.Now())
		}
		return true
	}
	return !w.yieldLocked()
}

// longer reports that a follower refuses to truncate what is committed in its log.
func (w watch) longer() {
	w.t.mu.Lock()
	w.yieldLocked()
}

// yieldLocked ends the term in favour of a follower, and reports whether it did. It unlocks. The
// follower holds everything acknowledged if it is in sync. A follower that has left the in-sync set
// may set its log aside at any moment: it stays a follower, and refuses to truncate what is
// committed in its log.
func (w watch) yieldLocked() bool {
	t := w.t
	member := slices.Contains(t.members.view.ISR, w.f.node)
	if t.o.Yield == nil || t.ended || !member {
		ended := t.ended
		t.mu.Unlock()
		return ended
	}
	t.endLocked(failure.NotLeading)
	t.mu.Unlock()
	t.o.Yield(t, Yield{Epoch: t.Epoch(), To: w.f.node, LastEpoch: t.members.before, End: t.start})
	return true
}

// verified reports whether another in-sync replica has been compared with the log of a term, or the
// log needed no comparison.
func verified(t *Term) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.members.alone.IsZero()
}

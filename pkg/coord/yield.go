package coord

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Yield is a leader's word that another replica holds records that its own log lacks.
type Yield struct {
	Epoch seq.Epoch   // of the term that is over
	To    meta.NodeID // that holds more
	// LastEpoch and End are the leader's own, from before the term.
	LastEpoch seq.Epoch
	End       seq.Offset
}

// compare judges what a follower says of its log before anything of it is cut. False:
// nothing is to be cut.
//
// A follower that knows more as committed than this log holds proves that this log
// has lost records. One that merely holds more, as every log may that was pushed a
// batch which nobody else got, proves nothing: except to a leader that does not know
// whether its disk has kept all.
func (w watch) compare(s replication.Standing) bool {
	t := w.t
	t.mu.Lock()
	lost := s.Committed > t.o.Log.End()
	epoch, end := s.Epoch, s.End
	if f := w.f.said; f.Suspect { // what it appended before it yielded counts for nothing
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

// longer is told that a follower refuses to cut what is committed in its log.
func (w watch) longer() {
	w.t.mu.Lock()
	w.yieldLocked()
}

// yieldLocked ends the term in favour of a follower, and returns whether it has. It
// unlocks. The follower holds whatever was acknowledged if it is in sync. One that has
// left the in-sync set may set its log aside at any moment: it stays a follower, and
// refuses to cut what is committed in its log.
func (w watch) yieldLocked() bool {
	t := w.t
	member := slices.Contains(t.members.view.ISR, w.f.node)
	if t.o.Yield == nil || t.ended || !member {
		ended := t.ended
		t.mu.Unlock()
		return ended
	}
	t.endLocked(ErrNotLeading)
	t.mu.Unlock()
	t.o.Yield(t, Yield{Epoch: t.Epoch(), To: w.f.node, LastEpoch: t.members.before, End: t.start})
	return true
}

// verified reports whether another in-sync replica has been compared with the log of a
// term, or the log needed none.
func verified(t *Term) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.members.alone.IsZero()
}

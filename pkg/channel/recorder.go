package channel

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Recorder records which offsets of a State change, so that a checkpoint of a large position
// need not visit all of it. A State has at most one. Like the State, it is not safe for
// concurrent use.
type Recorder struct {
	l         *ledger
	recording bool
	offsets   []seq.Offset // may have changed since the last call of Changes; possibly twice
	limit     int          // of offsets; beyond it the whole position is not larger
}

// minRecorded is how many offsets may always be recorded.
const minRecorded = 16

// Recorder returns the recorder of a State. The first call creates it; it records nothing yet.
func (s *State) Recorder() *Recorder {
	if s.ledger.recorder == nil {
		s.ledger.recorder = &Recorder{l: &s.ledger}
	}
	return s.ledger.recorder
}

// add adds an offset.
func (r *Recorder) add(o seq.Offset) {
	switch {
	case r == nil || !r.recording:
	case len(r.offsets) == r.limit:
		r.Restart()
	default:
		r.offsets = append(r.offsets, o)
	}
}

// Restart makes the next checkpoint visit everything.
func (r *Recorder) Restart() {
	if r != nil {
		r.recording, r.offsets = false, nil
	}
}

// Position returns the position of the state and starts recording changes if it has at least
// least entries; with fewer, Changes returns false. now and wall are as in View.Position.
func (r *Recorder) Position(now time.Time, wall int64, least int) position.Position {
	p := View{r.l}.Position(now, wall)
	r.Restart()
	if n := p.Len(); n >= least {
		r.recording, r.limit = true, max(n, minRecorded)
	}
	return p
}

// Recording reports whether Changes would return a change.
func (r *Recorder) Recording() bool { return r.recording }

// Changes returns the changes since the last call of Position or Changes, in time proportional
// to them. It returns false if they are unknown or not smaller than the whole position, for
// example after a wall clock change.
func (r *Recorder) Changes(now time.Time, wall int64) (position.Change, bool) {
	if r.l.align(now, wall) {
		r.Restart()
	}
	if !r.recording {
		return position.Change{}, false
	}
	l, changed := r.l, r.offsets
	r.offsets = changed[:0]
	if l.t != nil {
		r.limit = max(r.limit, l.t.index.used+l.t.far.Len())
	}
	slices.Sort(changed)
	c := position.Change{Position: position.Position{Floor: l.floor}}
	w := describer{l: l, into: &c}
	if l.t != nil {
		w.far = l.t.far.Reader()
	}
	for _, o := range slices.Compact(changed) {
		if o >= l.floor {
			w.describe(o)
		}
	}
	c.Deferred = w.deferred.Set()
	c.Absorb() // a held message may be at the floor
	return c, true
}

// describer records the state of offsets, in order, in a change.
type describer struct {
	l        *ledger
	into     *position.Change
	far      position.QueueReader
	deferred position.Packer
}

// describe adds an offset at or above the floor to the change, after the others.
func (w *describer) describe(o seq.Offset) {
	l, c, into := w.l, w.into, &w.into.Unmarked
	if l.done.Contains(o) {
		into = &c.Finished
	} else if d, ok := w.far.Find(o); ok {
		d.At, d.Delay = l.onWall(d.At), max(1, d.Delay)
		w.deferred.Add(d)
		return
	} else if slot, ok := l.slotOf(o); ok {
		m := &l.t.slots[slot]
		switch {
		case m.place == held:
			into = &c.Finished
		case m.place == deferred:
			w.deferred.Add(deferralOf(l, m))
			return
		case m.attempts > 0:
			c.Attempted = append(c.Attempted, position.Attempt{Offset: o, Attempts: m.attempts})
			return
		case m.delayed == advanced:
			w.deferred.Add(position.Deferral{Offset: o})
			return
		}
	}
	if n := len(*into); n > 0 && (*into)[n-1].End == o {
		(*into)[n-1].End++
		return
	}
	*into = append(*into, position.Range{From: o, End: o + 1})
}

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
	state   *State
	noting  bool
	offsets []seq.Offset // may have changed since the last call of Changes; possibly twice
	limit   int          // of offsets; beyond it the whole position is not larger
}

// minNoted is how many offsets may always be recorded.
const minNoted = 16

// NewRecorder returns the recorder of a state. It records nothing yet.
func NewRecorder(s *State) *Recorder {
	s.recorder = &Recorder{state: s}
	return s.recorder
}

// add adds an offset.
func (r *Recorder) add(o seq.Offset) {
	switch {
	case r == nil || !r.noting:
	case len(r.offsets) == r.limit:
		r.stop()
	default:
		r.offsets = append(r.offsets, o)
	}
}

// Restart makes the next checkpoint visit everything.
func (r *Recorder) Restart() { r.stop() }

// stop makes the next checkpoint visit everything.
func (r *Recorder) stop() {
	if r != nil {
		r.noting, r.offsets = false, nil
	}
}

// Position returns the position of the state and starts recording changes if it has at least
// least entries; with fewer, Changes returns false. now and wall are as in State.Position.
func (r *Recorder) Position(now time.Time, wall int64, least int) position.Position {
	p := r.state.Position(now, wall)
	r.stop()
	if n := p.Len(); n >= least {
		r.noting, r.limit = true, max(n, minNoted)
	}
	return p
}

// Notes reports whether Changes would return a change.
func (r *Recorder) Notes() bool { return r.noting }

// Changes returns the changes since the last call of Position or Changes, in time proportional
// to them. It returns false if they are unknown or not smaller than the whole position, for
// example after a wall clock change.
func (r *Recorder) Changes(now time.Time, wall int64) (position.Change, bool) {
	if r.state.align(now, wall) {
		r.stop()
	}
	if !r.noting {
		return position.Change{}, false
	}
	s, noted := r.state, r.offsets
	r.offsets = noted[:0]
	if s.t != nil {
		r.limit = max(r.limit, s.t.index.used+s.t.far.Len())
	}
	slices.Sort(noted)
	c := position.Change{Position: position.Position{Floor: s.floor}}
	w := describer{r: r, into: &c}
	if s.t != nil {
		w.far = s.t.far.Reader()
	}
	for _, o := range slices.Compact(noted) {
		if o >= s.floor {
			w.describe(o)
		}
	}
	c.Deferred = w.deferred.Set()
	c.Absorb() // a held message may be at the floor
	return c, true
}

// describer records the state of offsets, in order, in a change.
type describer struct {
	r        *Recorder
	into     *position.Change
	far      position.QueueReader
	deferred position.Packer
}

// describe adds an offset at or above the floor to the change, after the others.
func (w *describer) describe(o seq.Offset) {
	l, c, into := w.r.state, w.into, &w.into.Unmarked
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

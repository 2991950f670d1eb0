package repair

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Times of the search for a damaged range.
const (
	// For is how long consumers wait for replicas that do not answer. sure is how long they wait
	// if all answer that they do not hold the range, because one may be setting its copy aside at
	// that moment.
	For, sure = time.Minute, 5 * time.Second
	// failedPause is the pause before a range that could not be put into the log is requested again.
	failedPause = 10 * time.Minute
)

// Extent is a range of a log.
type Extent struct{ From, Next seq.Offset }

// extentOf returns the extent of a damage.
func extentOf(d commitlog.Damage) Extent { return Extent{d.From, d.Next} }

// Of returns the extent of an error.
func Of(err *commitlog.CorruptionError) Extent { return Extent{err.From, err.Next} }

// Holds reports whether the extent contains another one.
func (e Extent) Holds(o Extent) bool { return e.From <= o.From && o.Next <= e.Next }

// Sought is the state of the search in other replicas for each damaged range of a log. It outlives the
// repairs of the log. Its methods are safe for concurrent use.
type Sought struct {
	mu       sync.Mutex
	ranges   map[Extent]*search
	repaired map[Extent]repaired
	more     chan struct{} // holds one
}

// repaired counts the repairs of a range, with the time of the last one.
type repaired struct {
	times int
	at    time.Time
}

// repairsMost is the number of repairs of a range after which it is given up as soon as it is
// damaged again.
const repairsMost = 3

// NewSought returns a Sought without ranges.
func NewSought() *Sought { return &Sought{more: make(chan struct{}, 1)} }

// More returns a channel that receives when a range was added with Want.
func (s *Sought) More() <-chan struct{} { return s.more }

// search is the state of the search for one range.
type search struct {
	since  time.Time // since when other replicas are asked; zero: not yet
	given  bool      // it is given up: consumers skip it
	again  time.Time // it is not requested before this time
	hidden bool      // it is too large to be requested again
	told   bool      // Passed has returned it
}

// Want adds a damaged range, and reports whether it is new.
func (s *Sought) Want(e Extent) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first = s.addLocked(e); first {
		signal.Poke(s.more)
	}
	return first
}

func (s *Sought) addLocked(e Extent) (first bool) {
	if s.ranges[e] != nil {
		return false
	}
	if s.ranges == nil {
		s.ranges = map[Extent]*search{}
	}
	s.ranges[e] = &search{}
	if m := s.repaired[e]; m.times >= repairsMost {
		s.ranges[e] = &search{given: true, again: m.at.Add(failedPause)}
	}
	return true
}

// Waits reports whether consumers must wait for a range, because not all of it is given up. A part of a
// range that is given up counts as given up, even if it was found separately.
func (s *Sought) Waits(e Extent) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at := e.From; ; {
		next := at
		for o, x := range s.ranges {
			if x.given && o.From <= at && o.Next >= at {
				if o.Holds(e) {
					return false
				}
				next = max(next, o.Next)
			}
		}
		if next >= e.Next && e.From < e.Next {
			return false
		}
		if next == at {
			return true
		}
		at = next
	}
}

// Due returns which of all damaged ranges are to be requested now, and forgets ranges that are not in
// all. The minute of a range begins when it is first due.
func (s *Sought) Due(all []Extent, now time.Time) (due []Extent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.ranges {
		if !slices.Contains(all, e) {
			delete(s.ranges, e)
		}
	}
	for _, e := range all {
		s.addLocked(e)
		x := s.ranges[e]
		if x.hidden || now.Before(x.again) {
			continue
		}
		if x.since.IsZero() {
			x.since = now
		}
		due = append(due, e)
	}
	return due
}

// Denied records that no other replica holds a range. The range is given up if it has been requested
// for long enough.
func (s *Sought) Denied(e Extent, now time.Time) { s.note(e, now, sure, 0) }

// Failed records that a range cannot be put into the log. forGood means that waiting does
// not help.
func (s *Sought) Failed(e Extent, now time.Time, forGood bool) {
	if forGood {
		s.note(e, now, sure, failedPause)
	} else {
		s.note(e, now, For, failedPause)
	}
}

// Refused records that Prepare could not repair a range, and reports whether the range has failed. It has
// not if the damage is wider: the wider range is then requested in its place, and consumers wait for that.
func (s *Sought) Refused(e Extent, err error, now time.Time) (failed bool) {
	if wider, ok := errors.AsType[*WiderError](err); ok {
		if w := (Extent{wider.From, wider.Next}); w != e && w.Holds(e) {
			s.Want(w)
			return false
		}
	}
	s.Failed(e, now, errors.Is(err, ErrNoFit))
	return true
}

// note gives a range up that has been requested for at least within. A range that is given up is
// requested again after a pause.
func (s *Sought) note(e Extent, now time.Time, within, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.ranges[e]
	if x == nil || x.since.IsZero() {
		return
	}
	x.given = x.given || now.Sub(x.since) >= within
	if x.given {
		x.again = now.Add(pause)
	}
}

// Large records that a range is too large to be repaired.
func (s *Sought) Large(e Extent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.ranges[e]; x != nil {
		x.given, x.hidden = true, true
	}
}

// Postpone postpones a range to a later round, in which its minute begins.
func (s *Sought) Postpone(e Extent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.ranges[e]; x != nil && !x.given {
		x.since = time.Time{}
	}
}

// Overdue gives up the ranges whose time has expired.
func (s *Sought) Overdue(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.ranges {
		x.given = x.given || !x.since.IsZero() && now.Sub(x.since) >= For
	}
}

// Passed returns the ranges that were given up since the last call.
func (s *Sought) Passed() (all []Extent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e, x := range s.ranges {
		if x.given && !x.told {
			x.told = true
			all = append(all, e)
		}
	}
	return all
}

// Repaired records that ranges are repaired, and forgets the ranges in them. A range that was repaired
// repeatedly is given up when it is damaged once more, and requested after a pause, because each repair
// costs an epoch.
func (s *Sought) Repaired(all []Extent, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := range s.ranges {
		if slices.ContainsFunc(all, func(m Extent) bool { return m.Holds(e) }) {
			delete(s.ranges, e)
		}
	}
	if s.repaired == nil {
		s.repaired = map[Extent]repaired{}
	}
	for _, e := range all {
		s.repaired[e] = repaired{s.repaired[e].times + 1, now}
	}
}

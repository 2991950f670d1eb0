package repair

import (
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Times of the search for a damaged range.
const (
	// For is how long consumers wait for replicas that do not answer, and sure where all say that
	// they do not hold it: one may be setting its copy aside at that moment.
	For, sure = time.Minute, 5 * time.Second
	// failedPause is the pause before a range is asked for again that could not be put into the log.
	failedPause = 10 * time.Minute
)

// Extent is a range of a log.
type Extent struct{ From, Next seq.Offset }

// ExtentOf returns the range of a damage.
func ExtentOf(d commitlog.Damage) Extent { return Extent{d.From, d.Next} }

// Of returns the range of an error.
func Of(err *commitlog.CorruptionError) Extent { return Extent{err.From, err.Next} }

// Holds reports whether another range is in this one.
func (e Extent) Holds(o Extent) bool { return e.From <= o.From && o.Next <= e.Next }

// Sought is what is known of the search for the damaged ranges of a copy in other replicas, of each range by itself. It
// outlives the repairs of the copy. Its methods may be called by many goroutines.
type Sought struct {
	mu       sync.Mutex
	ranges   map[Extent]*search
	repaired map[Extent]repaired
	more     chan struct{} // holds one
}

// repaired is how often a range was repaired, and when last.
type repaired struct {
	times int
	at    time.Time
}

// repairsMost is how often a range is repaired before it is given up as soon as it is damaged again.
const repairsMost = 3

// NewSought returns no ranges.
func NewSought() *Sought { return &Sought{more: make(chan struct{}, 1)} }

// More returns a channel that receives when a range was added with Want.
func (s *Sought) More() <-chan struct{} { return s.more }

// search is how far the search for one range is.
type search struct {
	since  time.Time // the others are asked since; zero: not yet
	given  bool      // it is given up: consumers pass over it
	again  time.Time // it is not asked for before
	hidden bool      // it is too large to be asked for again
	told   bool      // Passed has returned it
}

// Want adds a range that is damaged, and returns whether that is new.
func (s *Sought) Want(e Extent) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first = s.addLocked(e); first {
		select {
		case s.more <- struct{}{}:
		default:
		}
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

// Waits reports whether consumers wait for a range: not all of it is given up. A part of what is given up is, too,
// though it was met by itself.
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

// Due returns which of all damaged ranges are to be asked for at a moment, and forgets others than those. The first
// time that a range is due its minute begins.
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

// Denied notes that no other replica holds a range; it is given up once that has been said for long enough.
func (s *Sought) Denied(e Extent, now time.Time) { s.note(e, now, sure, 0) }

// Failed notes that a range cannot be put into the log. For good: it is no matter of time.
func (s *Sought) Failed(e Extent, now time.Time, forGood bool) {
	if forGood {
		s.note(e, now, sure, failedPause)
	} else {
		s.note(e, now, For, failedPause)
	}
}

// note gives a range up that has been asked for for so long, and has what is given up be asked for again after a pause.
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

// Large notes that a range is too large to be repaired.
func (s *Sought) Large(e Extent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.ranges[e]; x != nil {
		x.given, x.hidden = true, true
	}
}

// Postpone has a range be asked for in a later round. Its minute begins then.
func (s *Sought) Postpone(e Extent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.ranges[e]; x != nil && !x.given {
		x.since = time.Time{}
	}
}

// Overdue gives the ranges up whose minute is over.
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

// Repaired notes that ranges are repaired, and forgets what is in them. One that was repaired again and again is given up when
// it is damaged once more, and asked for after a pause: each time cost an epoch.
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

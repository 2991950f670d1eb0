package broker

import (
	"sync/atomic"
	"time"
)

// claim is what one relay of a subscription has and wants of the messages that
// may be in flight.
type claim struct {
	credit   int  // that it has
	inFlight int  // that the client has of it, or will get
	starved  bool // it could have something, with more credit
	filled   bool // it got messages since it was given credit
	retiring bool // it is to get nothing more
}

// full says whether the leader can send nothing more, whatever it has.
func (c claim) full() bool {
	return !c.retiring && c.inFlight >= c.credit && (c.inFlight > 0 || c.starved)
}

// allot splits the flow-control credit of a subscription, ready, among its relays.
// Each relay holds its share at its leader before it is known where messages are;
// others is the number of sources beside the relays. If ready >= number of sources,
// it is split evenly; a source that has more in flight than its share reduces the
// others' until it drains. Otherwise the relays get one message each: first those
// with one in flight, then the starved ones, starting with the one at turn, and
// then those that held credit before.
func allot(ready, others, turn int, claims []claim) []int {
	parts := make([]int, len(claims))
	var live []int
	for i, c := range claims {
		if !c.retiring {
			live = append(live, i)
		}
	}
	if len(live) == 0 || ready <= 0 {
		return parts
	}
	if all := len(live) + others; ready >= all {
		for k, i := range live {
			parts[i] = ready / all
			if k < ready%all {
				parts[i]++
			}
		}
		withhold(parts, claims)
		return parts
	}
	left := min(ready, len(live))
	for _, i := range live { // no more than that is to be in flight
		left -= max(claims[i].inFlight-1, 0)
	}
	give := func(deserves func(claim) bool) {
		for k := range live {
			i := live[(turn+k)%len(live)]
			if left > 0 && parts[i] == 0 && deserves(claims[i]) {
				parts[i] = 1
				left--
			}
		}
	}
	give(func(c claim) bool { return c.inFlight > 0 })
	give(func(c claim) bool { return c.starved })
	give(func(c claim) bool { return c.credit > 0 })
	give(func(claim) bool { return true })
	return parts
}

// withhold takes from the parts that are not in flight what others have in flight
// beyond theirs.
func withhold(parts []int, claims []claim) {
	over, room := 0, 0
	for i, c := range claims {
		over += max(c.inFlight-parts[i], 0)
		room += max(parts[i]-c.inFlight, 0)
	}
	over = min(over, room)
	for i, c := range claims {
		if own := max(parts[i]-c.inFlight, 0); own > 0 {
			cut := (own*over + room - 1) / room
			parts[i] -= cut
			over, room = over-cut, room-own
		}
	}
}

// lend shares out anew what is not in flight, where a client waits with credit
// that lies with leaders which do not use it: all get the same of it beside what
// they have in flight, and of the rest one more each, those that are full first, and
// of them the one at turn. local is how much is in flight of what is led here, others
// as for allot. It returns nil where that would serve nobody.
func lend(ready, local, others, turn int, claims []claim) []int {
	free, live, full := ready-local, others, 0
	for _, c := range claims {
		free -= c.inFlight
		if !c.retiring {
			live++
		}
		if c.full() {
			full++
		}
	}
	if free <= 0 || full == 0 {
		return nil
	}
	parts := make([]int, len(claims))
	rest := free % live
	give := func(deserves func(claim) bool) {
		for k := range claims {
			i := (turn + k) % len(claims)
			if rest > 0 && deserves(claims[i]) {
				parts[i]++
				rest--
			}
		}
	}
	give(claim.full)
	give(func(c claim) bool { return !c.full() && !c.retiring })
	for i, c := range claims {
		if !c.retiring {
			parts[i] += c.inFlight + free/live
		}
	}
	return parts
}

const (
	// lendAfter is how long a client that has room waits before credit is lent.
	lendAfter = 50 * time.Millisecond
	// lendAtMost is how long it waits when nothing has come of that again and again.
	lendAtMost = time.Second
)

// lender sees to it that a client gets all that it has room for, wherever the
// messages are: a leader may have sent all of its part and have more while others do
// not use theirs.
type lender struct {
	pause   time.Duration // before credit is lent; of Take's goroutine
	waiting atomic.Bool   // it will be
	lent    atomic.Bool   // the parts are not those that allot would share out at rest
}

// look records how many messages Take returned. If none, and credit is unused, idle
// credit is lent to saturated relays after a pause; a lender gets it back once it has
// used up its own. It must be called by Take's goroutine.
func (l *lender) look(s *Subscription, set *sources, took int) {
	if took > 0 {
		l.pause = lendAfter
		return
	}
	ready := int(s.ready.Load())
	fair := ready / (len(set.relays) + set.others())
	full, deprived := false, false
	for _, r := range set.relays {
		c := r.claim()
		full = full || c.full()
		deprived = deprived || c.full() && (c.filled || c.starved) && c.credit < fair
	}
	if deprived && l.lent.Load() {
		s.allot()
	}
	if !full || s.stopped.Load() || set.inFlight() >= ready || l.waiting.Swap(true) {
		return
	}
	l.pause = max(l.pause, lendAfter)
	time.AfterFunc(l.pause, func() {
		l.waiting.Store(false)
		s.share(lend)
		s.wake() // if nothing comes of it, another is to have it
	})
	l.pause = min(2*l.pause, lendAtMost)
}

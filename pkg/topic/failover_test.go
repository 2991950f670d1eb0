package topic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/seq"
)

// story is a random history of a partition on three nodes, with one consumer on an ordered channel,
// one on a plain one, and one on a channel that is created and deleted repeatedly.
type story struct {
	*set
	rng  *rand.Rand
	log  []string
	end  int // messages published
	late map[int]time.Time
	made uint64 // channels, ever

	watched map[string]*watched
}

// watched is a channel and what its consumer knows of it.
type watched struct {
	name    string
	version uint64
	ordered bool
	c       *Channel
	r       *reader
	started int          // where it began, or was moved to
	flying  []int        // delivered and not answered
	got     map[int]bool // delivered before: maybe early, by a leader that did not know when it was due
	said    map[int]bool // answered as finished, since it was moved
	settled map[int]bool // of these, what every replica has
	last    int          // ordered: delivered last
}

func (s *story) note(format string, args ...any) { s.log = append(s.log, fmt.Sprintf(format, args...)) }

// attend adds a channel to the leader's partition, and its consumer joins.
func (s *story) attend(w *watched) {
	w.c = s.channel(w.name, w.version, w.ordered)
	w.r = s.bench().join(w.c)
	w.flying = nil
}

// recreate creates a channel that begins at the committed end.
func (s *story) recreate(name string, ordered bool) {
	s.made++
	w := &watched{name: name, version: s.made, ordered: ordered, started: s.end, last: s.end - 1, got: map[int]bool{}}
	w.said, w.settled = map[int]bool{}, map[int]bool{}
	s.watched[name] = w
	s.attend(w)
	s.flush()
}

// flush makes every replica store its positions.
func (s *story) flush() {
	s.line.deliverAll()
	s.line.auto = true
	if err := s.p.Flush(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.line.auto = false
	for _, w := range s.watched {
		for o := range w.said { // possibly to a leader that has failed since
			if at, _ := stateOf(w.c, seq.Offset(o)); at == channel.Finished {
				w.settled[o] = true
			}
		}
	}
}

func (s *story) take(w *watched) error {
	var bad error
	n, err := w.r.Take(s.now, 1+s.rng.IntN(4), func(d *Delivery) error {
		o := int(d.ID.Offset())
		s.note("%s gets %d", w.name, o)
		if string(d.Body) != fmt.Sprint(o) {
			bad = fmt.Errorf("%q at %d", d.Body, o)
		}
		if err := s.delivered(w, o); err != nil {
			bad = err
		}
		w.flying = append(w.flying, o)
		return nil
	})
	if n == 0 {
		s.note("%s gets nothing", w.name)
	}
	return errors.Join(bad, err)
}

// delivered checks that a message may be delivered now.
func (s *story) delivered(w *watched, o int) error {
	again := w.got[o] // a consumer had it: it does not wait again
	w.got[o] = true
	switch {
	case o < w.started:
		return fmt.Errorf("%s: %d is from before its start %d", w.name, o, w.started)
	case w.settled[o]:
		return fmt.Errorf("%s: %d again, although everybody had it as finished", w.name, o)
	case s.now.Before(s.late[o]) && o >= s.nodes[s.leader].since && !again:
		return fmt.Errorf("%s: %d before it is due", w.name, o)
	case !w.ordered:
		return nil
	}
	switch {
	case o == w.last+1 && (o == w.started || w.said[o-1]):
		delete(w.said, w.last) // there is no way back
		w.settled[w.last] = true
		w.last = o
	case o != w.last:
		return fmt.Errorf("%s: %d after %d (finished: %v)", w.name, o, w.last, w.said[w.last])
	}
	return nil
}

// answer answers one message in flight.
func (s *story) answer(w *watched) {
	if len(w.flying) == 0 {
		return
	}
	i := s.rng.IntN(len(w.flying))
	o := w.flying[i]
	w.flying = slices.Delete(w.flying, i, i+1)
	if s.rng.IntN(5) == 0 {
		delay := time.Duration(s.rng.IntN(3)) * time.Minute
		s.note("%s requeues %d for %v", w.name, o, delay)
		_ = w.r.Requeue(seq.Offset(o), s.now, delay)
		return
	}
	err := w.r.Finish(seq.Offset(o))
	s.note("%s finishes %d: %v", w.name, o, err)
	if err == nil {
		w.said[o] = true
	}
}

func (s *story) step() error {
	names := []string{"ordered", "plain", "young"}
	w := s.watched[names[s.rng.IntN(len(names))]]
	follower := s.rng.IntN(len(s.nodes))
	switch n := s.rng.IntN(100); {
	case n < 15:
		delay := time.Duration(0)
		if s.rng.IntN(6) == 0 {
			delay = time.Duration(s.rng.IntN(200)) * time.Second
			s.late[s.end] = s.now.Add(delay)
		}
		s.note("publish %d, delay %v", s.end, delay)
		s.publishLate(fmt.Sprint(s.end), delay)
		s.end++
	case n < 40:
		return s.take(w)
	case n < 62:
		s.answer(w)
	case n < 82:
		s.note("deliver to %d: %v, %v", follower, s.line.deliver(follower), s.line)
	case n < 86:
		s.now = s.now.Add(time.Duration(s.rng.IntN(40)) * time.Second)
		s.note("tick %v", s.now.Unix())
		if s.rng.IntN(3) == 0 {
			n := s.nodes[follower]
			n.step = time.Duration(s.rng.IntN(5)-2) * 13 * time.Hour
			s.note("the clock of %d is set %v off", follower, n.step)
		}
		for _, w := range s.watched {
			w.c.Tick(s.now)
			w.flying = slices.DeleteFunc(w.flying, func(o int) bool { _, n := stateOf(w.c, seq.Offset(o)); return n == 0 })
		}
	case n < 91:
		s.note("checkpoint")
		if n := s.nodes[follower]; n.standby != nil && s.rng.IntN(2) == 0 {
			return n.standby.Checkpoint()
		}
		return s.p.Checkpoint()
	default:
		return s.rareStep(follower, w)
	}
	return nil
}

func (s *story) rareStep(node int, w *watched) error {
	switch n := s.rng.IntN(10); {
	case n < 2:
		if s.nodes[node].standby != nil {
			s.note("new session with %d", node)
			s.line.restart(node, false)
		}
	case n < 4:
		if s.nodes[node].standby != nil {
			s.note("%d is killed and comes back", node)
			s.follow(node) // without having closed the one before
			n := s.nodes[node]
			n.ages, n.since = n.clock(s.set), s.end
			s.line.restart(node, true)
		}
	case n < 7:
		// an in-sync replica has the finished messages
		if n := s.nodes[node]; n.standby == nil || n.killed || s.line.has[node] < s.line.settled {
			return nil
		}
		s.note("%d leads", node)
		s.lead(node)
		for _, name := range []string{"ordered", "plain", "young"} {
			s.attend(s.watched[name])
		}
		s.p.ChannelsComplete()
	case n < 8:
		s.note("young is deleted and recreated at %d", s.end)
		if err := s.p.RemoveChannel("young"); err != nil {
			return err
		}
		s.recreate("young", false)
	case n < 9:
		s.note("flush")
		s.flush()
	default:
		s.line.deliverAll() // Seek waits for that
		o := s.rng.IntN(s.end + 1)
		s.note("%s is moved to %d", w.name, o)
		if err := w.c.Seek(seq.Offset(o)); err != nil {
			return err
		}
		w.started, w.last, w.flying = o, o-1, nil
		clear(w.said)
		clear(w.settled)
		s.flush()
	}
	return nil
}

// drain takes all messages that are left, and checks that none is missing.
func (s *story) drain() error {
	for range 10 * s.end {
		s.now = s.now.Add(5 * time.Minute)
		s.line.deliverAll()
		for _, w := range s.watched {
			w.c.Tick(s.now)
			if n := w.c.Stats().Deferred; n > 0 {
				return fmt.Errorf("%s: %d are deferred for longer than any delay", w.name, n)
			}
			if err := s.take(w); err != nil {
				return err
			}
			for _, o := range w.flying {
				if err := w.r.Finish(seq.Offset(o)); err == nil {
					w.said[o] = true
				}
			}
			w.flying = nil
		}
	}
	s.line.deliverAll()
	for _, w := range s.watched {
		if got := int(w.c.Floor()); got != s.end {
			return fmt.Errorf("%s stands at %d of %d", w.name, got, s.end)
		}
		for o := w.started; o < s.end; o++ {
			if !w.said[o] && !w.settled[o] {
				return fmt.Errorf("%s never got %d", w.name, o)
			}
		}
	}
	return nil
}

// TestNothingIsSkippedByAFailOver runs random histories of three nodes: shares of a leader are
// lost, late, or repeated, and leaders change. No message is skipped, an ordered channel continues
// in order, and a message that every replica knows as finished is not delivered again.
func TestNothingIsSkippedByAFailOver(t *testing.T) {
	rng := testrand.New(t)
	for i := range 80 {
		s := &story{set: newSetThatUpdates(t, i%2), rng: rng, late: map[int]time.Time{}, watched: map[string]*watched{}}
		s.recreate("ordered", true)
		s.recreate("plain", false)
		s.recreate("young", false)
		s.p.ChannelsComplete()
		var err error
		for range 400 {
			if err = s.step(); err != nil {
				break
			}
		}
		if err == nil {
			err = s.drain()
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(s.log, "\n"))
		}
	}
}

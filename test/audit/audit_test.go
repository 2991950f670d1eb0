package audit

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

const (
	ms      = time.Millisecond
	window  = 1000 * ms
	grace   = 500 * ms
	timeout = 60 * time.Second
)

// story drives an Audit with a clock that a test moves by hand.
type story struct {
	*Audit
	now   time.Duration
	conns int
}

func newStory() *story {
	return &story{Audit: New(Options{
		Producers: 2, Channels: []string{"a", "b"},
		Window: window, Grace: grace, MsgTimeout: timeout, Tolerance: 5 * ms, Keep: 2 * timeout,
	}), now: ms}
}

func (s *story) wait(d time.Duration) { s.now += d }

func (s *story) conn(channel, round int) int {
	s.conns++
	s.Connect(s.conns, channel, round)
	return s.conns
}

// sum and id of a message are derived from its number.
func sum(seq int) uint64 { return uint64(1000 + seq) }

func id(seq int) ID {
	var i ID
	copy(i[:], fmt.Sprintf("%016x", seq+1))
	return i
}

func (s *story) publish(seq int) {
	s.Publish(Key{0, seq}, sum(seq), 0)
	s.wait(ms)
	s.Settle(s.now, Key{0, seq}, Acknowledged)
}

func (s *story) deliver(c, seq int) {
	s.wait(ms)
	s.Deliver(s.now, c, Key{0, seq}, sum(seq), id(seq))
}

func (s *story) fin(c, seq int) {
	s.wait(ms)
	s.Finish(s.now, c, Key{0, seq})
}

func (s *story) kinds() []Kind {
	var kinds []Kind
	for _, v := range s.Violations() {
		kinds = append(kinds, v.Kind)
	}
	return kinds
}

// both delivers and finishes a message on both channels in a round.
func (s *story) both(round, seq int) (a, b int) {
	a, b = s.conn(0, round), s.conn(1, round)
	for _, c := range []int{a, b} {
		s.deliver(c, seq)
		s.fin(c, seq)
	}
	return a, b
}

// TestViolationsAreFound plants one violation in each history.
func TestViolationsAreFound(t *testing.T) {
	tests := []struct {
		name  string
		want  Kind
		story func(*story)
	}{
		{"an acknowledged message never comes", Lost, func(s *story) {
			s.publish(0)
		}},
		{"an acknowledged message misses one channel", Lost, func(s *story) {
			s.publish(0)
			a := s.conn(0, 1)
			s.deliver(a, 0)
			s.fin(a, 0)
		}},
		{"a message of unknown fate misses one channel", Half, func(s *story) {
			s.Publish(Key{0, 0}, sum(0), 0)
			s.Settle(s.now, Key{0, 0}, Open)
			a := s.conn(0, 1)
			s.deliver(a, 0)
			s.fin(a, 0)
		}},
		{"a message is delivered and never finished", Unfinished, func(s *story) {
			s.publish(0)
			a, b := s.conn(0, 1), s.conn(1, 1)
			s.deliver(a, 0)
			s.fin(a, 0)
			s.deliver(b, 0)
		}},
		{"a message that was put back never comes again", Unfinished, func(s *story) {
			s.publish(0)
			a, b := s.conn(0, 1), s.conn(1, 1)
			s.deliver(a, 0)
			s.fin(a, 0)
			s.deliver(b, 0)
			s.Requeue(s.now, b, Key{0, 0}, 0)
		}},
		{"a message is delivered that was not published", Invented, func(s *story) {
			s.deliver(s.conn(0, 1), 7)
		}},
		{"a producer is named that does not exist", Invented, func(s *story) {
			s.Deliver(s.now, s.conn(0, 1), Key{9, 0}, 1, id(0))
		}},
		{"a body names no message", Invented, func(s *story) {
			s.Garbage(s.now, "12 bytes")
		}},
		{"a body has changed", Altered, func(s *story) {
			s.publish(0)
			a, _ := s.both(1, 0)
			s.Deliver(s.now, a, Key{0, 0}, sum(0)+1, id(0))
		}},
		{"a refused message comes later", Refused, func(s *story) {
			s.Publish(Key{0, 0}, sum(0), 0)
			s.Settle(s.now, Key{0, 0}, Rejected)
			s.both(1, 0)
		}},
		{"a message is refused after it came", Refused, func(s *story) {
			s.Publish(Key{0, 0}, sum(0), 0)
			s.both(1, 0)
			s.Settle(s.now, Key{0, 0}, Rejected)
		}},
		{"a message is stored twice", TwoIDs, func(s *story) {
			s.publish(0)
			a, b := s.both(1, 0)
			s.wait(ms)
			s.Close(s.now, a, false)
			s.Close(s.now, b, false)
			c := s.conn(0, 1)
			s.Deliver(s.now, c, Key{0, 0}, sum(0), id(5))
			s.fin(c, 0)
		}},
		{"a message is stored twice behind a change of all ids", TwoIDs, func(s *story) {
			s.publish(0)
			a, b := s.both(1, 0)
			s.wait(ms)
			s.Close(s.now, a, false)
			s.Close(s.now, b, false)
			s.Renumber()
			for i, other := range []int{5, 0, 6} { // its new id, the old one heard recently, and a third
				c := s.conn(0, i+2)
				s.Deliver(s.now, c, Key{0, 0}, sum(0), id(other))
				if i < 2 {
					s.Close(s.now, c, false)
				} else {
					s.fin(c, 0)
				}
			}
		}},
		{"an id is given twice", SharedID, func(s *story) {
			s.publish(0)
			s.publish(1)
			a, b := s.both(1, 0)
			for _, c := range []int{a, b} {
				s.Deliver(s.now, c, Key{0, 1}, sum(1), id(0))
				s.fin(c, 1)
			}
		}},
		{"a message is in flight to two consumers", Twice, func(s *story) {
			s.publish(0)
			a, b := s.conn(0, 1), s.conn(0, 1)
			s.deliver(a, 0)
			s.deliver(b, 0)
			s.fin(b, 0)
			c := s.conn(1, 1)
			s.deliver(c, 0)
			s.fin(c, 0)
		}},
		{"a finished message comes again without a cause", Undone, func(s *story) {
			s.publish(0)
			a, _ := s.both(1, 0)
			s.deliver(a, 0)
			s.fin(a, 0)
		}},
		{"a message finished long before the kill comes again", Undone, func(s *story) {
			s.publish(0)
			s.both(1, 0)
			s.wait(window + 10*ms)
			s.Kill(s.now, 1, 0)
			s.both(2, 0)
		}},
		{"a kill of another round is no excuse", Undone, func(s *story) {
			s.publish(0)
			s.Kill(s.now, 1, 0)
			a, _ := s.both(2, 0)
			s.deliver(a, 0)
			s.fin(a, 0)
		}},
		{"a clean close does not undo a FIN", Undone, func(s *story) {
			s.publish(0)
			a, _ := s.both(1, 0)
			s.Close(s.now, a, true)
			c := s.conn(0, 1)
			s.deliver(c, 0)
			s.fin(c, 0)
		}},
		{"a cut connection excuses its last FINs only", Undone, func(s *story) {
			s.publish(0)
			a, _ := s.both(1, 0)
			s.wait(grace + 10*ms)
			s.Close(s.now, a, false)
			c := s.conn(0, 1)
			s.deliver(c, 0)
			s.fin(c, 0)
		}},
		{"a deferred publish comes early", Early, func(s *story) {
			s.Publish(Key{0, 0}, sum(0), s.now+100*ms)
			s.Settle(s.now, Key{0, 0}, Acknowledged)
			s.both(1, 0)
		}},
		{"a message that was put back comes early", Early, func(s *story) {
			s.publish(0)
			a, b := s.conn(0, 1), s.conn(1, 1)
			s.deliver(a, 0)
			s.fin(a, 0)
			s.deliver(b, 0)
			s.Requeue(s.now, b, Key{0, 0}, 200*ms)
			s.deliver(b, 0)
			s.fin(b, 0)
		}},
		{"a forgotten message comes again", Ancient, func(s *story) {
			s.publish(0)
			s.both(1, 0)
			s.wait(2*timeout + ms)
			s.Forget(s.now)
			s.both(1, 0)
		}},
		{"the broker refuses a FIN", Answer, func(s *story) {
			s.Complain(s.now, "E_FIN_FAILED")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStory()
			tt.story(s)
			s.End(s.now)
			if !slices.Contains(s.kinds(), tt.want) {
				t.Errorf("found %v, want %q", s.Violations(), tt.want)
			}
			for _, k := range s.kinds() {
				if k != tt.want {
					t.Errorf("found %q besides: %v", k, s.Violations())
				}
			}
		})
	}
}

// TestCausesExplainRedeliveries plants none, but comes close.
func TestCausesExplainRedeliveries(t *testing.T) {
	tests := []struct {
		name  string
		want  Cause
		story func(s *story, a int) // message 0 is finished on b and in flight on a, in round 1
	}{
		{"put back", CauseRequeue, func(s *story, a int) {
			s.Requeue(s.now, a, Key{0, 0}, 100*ms)
			s.wait(100 * ms)
			s.deliver(a, 0)
			s.fin(a, 0)
		}},
		{"put back, and the broker killed before it was noted", CauseRequeue, func(s *story, a int) {
			s.Requeue(s.now, a, Key{0, 0}, 10*time.Second)
			s.Kill(s.now, 1, 0)
			c := s.conn(0, 2)
			s.deliver(c, 0)
			s.fin(c, 0)
		}},
		{"connection cut", CauseDisconnect, func(s *story, a int) {
			s.Close(s.now, a, false)
			c := s.conn(0, 1)
			s.deliver(c, 0)
			s.fin(c, 0)
		}},
		{"not answered in time", CauseTimeout, func(s *story, a int) {
			s.wait(timeout)
			s.deliver(a, 0)
			s.fin(a, 0)
		}},
		{"finished after its time", CauseTimeout, func(s *story, a int) {
			s.wait(timeout)
			s.fin(a, 0)
			s.deliver(a, 0)
			s.fin(a, 0)
		}},
		{"in flight at the kill", CauseKill, func(s *story, _ int) {
			s.Kill(s.now, 1, 0)
			c := s.conn(0, 3)
			s.deliver(c, 0)
			s.fin(c, 0)
		}},
		{"finished just before the kill", CauseWindow, func(s *story, a int) {
			s.fin(a, 0)
			s.wait(window - ms)
			s.Kill(s.now, 1, 0)
			c := s.conn(0, 2)
			s.deliver(c, 0)
			s.fin(c, 0)
		}},
		{"finished before the kill, and the machine stood still", CauseWindow, func(s *story, a int) {
			s.fin(a, 0)
			s.wait(window + 300*ms)
			s.Kill(s.now, 1, 300*ms)
			c := s.conn(0, 2)
			s.deliver(c, 0)
			s.fin(c, 0)
		}},
		{"finished just before the cut", CauseCut, func(s *story, a int) {
			s.fin(a, 0)
			s.Close(s.now, a, false)
			c := s.conn(0, 1)
			s.deliver(c, 0)
			s.fin(c, 0)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStory()
			s.publish(0)
			a, b := s.conn(0, 1), s.conn(1, 1)
			s.deliver(b, 0)
			s.fin(b, 0)
			s.deliver(a, 0)
			tt.story(s, a)
			s.End(s.now)
			if len(s.Violations()) > 0 {
				t.Errorf("found %v", s.Violations())
			}
			if got := s.Stats().Redelivered; got[tt.want] != 1 || len(got) != 1 {
				t.Errorf("explained by %v, want %q", got, tt.want)
			}
		})
	}
}

func TestMessageOfUnknownFateMayBeStoredOrNot(t *testing.T) {
	s := newStory()
	for seq := range 3 {
		s.Publish(Key{0, seq}, sum(seq), 0)
		s.Settle(s.now, Key{0, seq}, Open)
	}
	s.both(1, 1)
	s.End(s.now)
	if len(s.Violations()) > 0 || s.Stats().Recovered != 1 || s.Stats().Owed != 0 {
		t.Errorf("%v, %+v, %d open", s.Violations(), s.Stats(), s.Stats().Owed)
	}
}

func TestForgettingKeepsOwedMessages(t *testing.T) {
	s := newStory()
	for seq := range 4 {
		s.publish(seq)
	}
	s.both(1, 0)
	s.both(1, 1)
	s.both(1, 3)
	s.wait(2*timeout + ms)
	s.Forget(s.now)
	if got := s.producers[0].first; got != 2 {
		t.Errorf("forgot %d messages, want 2", got)
	}
	if s.Stats().Owed != 1 {
		t.Errorf("%d open, want 1", s.Stats().Owed)
	}
	s.both(1, 2)
	s.End(s.now)
	if len(s.Violations()) > 0 {
		t.Errorf("found %v", s.Violations())
	}
}

func TestViolationsAreCountedBeyondThoseKept(t *testing.T) {
	s := newStory()
	for range maxViolations + 5 {
		s.Garbage(s.now, "x")
	}
	if len(s.Violations()) != maxViolations || s.Stats().Violations != maxViolations+5 {
		t.Errorf("kept %d, counted %d", len(s.Violations()), s.Stats().Violations)
	}
}

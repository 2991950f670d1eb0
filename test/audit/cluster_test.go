package audit

import (
	"slices"
	"testing"
	"time"
)

const notice = 300 * ms

func newClusterStory() *story {
	s := newStory()
	s.o.Notice = notice
	return s
}

// TestClustersRedeliveries tells histories of a cluster, in which all rounds are
// one, and what is to be thought of them.
func TestClustersRedeliveries(t *testing.T) {
	tests := []struct {
		name  string
		want  []Kind
		cause Cause
		story func(s *story, had, other int)
	}{
		{"in flight when a node is killed", nil, CauseMove, func(s *story, had, other int) {
			s.Disturb(s.now)
			s.deliver(other, 0)
		}},
		{"in flight after all has recovered", []Kind{Twice}, CauseMove, func(s *story, had, other int) {
			s.Disturb(s.now)
			s.Calm(s.now)
			s.wait(grace + ms)
			s.deliver(other, 0) // it was in flight when the node was disturbed
			s.wait(ms)
			s.deliver(had, 0)
			s.wait(notice + ms)
		}},
		{"finished within the window", nil, CauseMoveWindow, func(s *story, had, other int) {
			s.fin(had, 0)
			s.wait(window - ms)
			s.Disturb(s.now)
			s.deliver(other, 0)
		}},
		{"finished before the window", []Kind{Undone}, "", func(s *story, had, other int) {
			s.fin(had, 0)
			s.wait(window + 2*ms)
			s.Disturb(s.now)
			s.deliver(other, 0)
			s.fin(other, 0)
		}},
		{"finished while a node is paused", nil, CauseMoveWindow, func(s *story, had, other int) {
			s.Disturb(s.now)
			s.wait(10 * time.Second)
			s.fin(had, 0)
			s.deliver(other, 0)
		}},
		{"finished long after all has recovered", []Kind{Undone}, "", func(s *story, had, other int) {
			s.Disturb(s.now)
			s.Calm(s.now)
			s.wait(grace + ms)
			s.fin(had, 0)
			s.deliver(other, 0)
			s.fin(other, 0)
		}},
		{"given back by one node before another tells of the end", nil, CauseDisconnect, func(s *story, had, other int) {
			s.deliver(other, 0)
			s.wait(notice - ms)
			s.Close(s.now, had, false)
		}},
		{"given back, and no end of the connection is reported in time", []Kind{Twice}, "", func(s *story, had, other int) {
			s.deliver(other, 0)
			s.wait(notice + ms)
			s.Close(s.now, had, false)
		}},
		{"finished just before its connection was cut, told late", nil, CauseCut, func(s *story, had, other int) {
			s.fin(had, 0)
			s.deliver(other, 0)
			s.wait(notice - ms)
			s.Close(s.now, had, false)
		}},
		{"in flight when its leader changed", nil, CauseMoved, func(s *story, had, other int) {
			s.deliver(other, 0)
			s.wait(notice / 2) // that is when it is noticed
			s.Move(s.now, 3)
		}},
		{"in flight when another partition's leader changed", []Kind{Twice}, "", func(s *story, had, other int) {
			s.deliver(other, 0)
			s.Move(s.now, 4)
		}},
		{"in flight after its leader changed", []Kind{Twice}, "", func(s *story, had, other int) {
			s.now += ms
			s.moves = append(s.moves, move{s.now - 3*ms, 3}) // before the first delivery
			s.deliver(other, 0)
		}},
		{"put back just before its connection was cut, told late", nil, CauseCut, func(s *story, had, other int) {
			s.Requeue(s.now, had, Key{0, 0}, time.Minute)
			s.deliver(other, 0)
			s.wait(notice - ms)
			s.Close(s.now, had, false)
		}},
		{"put back, and its connection ended well", []Kind{Early}, "", func(s *story, had, other int) {
			s.Requeue(s.now, had, Key{0, 0}, time.Minute)
			s.deliver(other, 0)
			s.wait(notice - ms)
			s.Close(s.now, had, true)
		}},
		{"put back when its leader changed", nil, CauseMovedWindow, func(s *story, had, other int) {
			s.Requeue(s.now, had, Key{0, 0}, time.Minute)
			s.deliver(other, 0)
			s.Move(s.now, 3)
		}},
		{"finished when its leader changed", nil, CauseMovedWindow, func(s *story, had, other int) {
			s.fin(had, 0)
			s.deliver(other, 0)
			s.Move(s.now, 3)
		}},
		{"finished long before its leader changed", []Kind{Undone}, "", func(s *story, had, other int) {
			s.fin(had, 0)
			s.wait(window + notice + ms)
			s.Move(s.now, 3)
			s.deliver(other, 0)
			s.fin(other, 0)
		}},
		{"finished long after its leader changed", []Kind{Undone}, "", func(s *story, had, other int) {
			s.Move(s.now, 3)
			s.wait(notice + ms)
			s.fin(had, 0)
			s.deliver(other, 0)
			s.fin(other, 0)
		}},
		{"finished too late, as the broker said", nil, CauseRefused, func(s *story, had, other int) {
			s.fin(had, 0)
			s.Refuse(had, id(0))
			s.deliver(other, 0)
			s.fin(other, 0)
		}},
		{"finished, and its connection ended well", []Kind{Undone}, "", func(s *story, had, other int) {
			s.fin(had, 0)
			s.deliver(other, 0)
			s.wait(notice - ms)
			s.Close(s.now, had, true)
			s.fin(other, 0)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newClusterStory()
			s.o.Partition = func(ID) int { return 3 }
			s.publish(0)
			had, other := s.conn(0, 1), s.conn(0, 1)
			s.deliver(had, 0)
			test.story(s, had, other)
			s.wait(2 * notice)
			s.Forget(s.now)
			if got := s.kinds(); !slices.Equal(got, test.want) {
				t.Errorf("violations %v, want %v", s.Violations(), test.want)
			}
			if test.cause != "" && s.Stats().Redelivered[test.cause] != 1 {
				t.Errorf("causes %v, want %s", s.Stats().Redelivered, test.cause)
			}
		})
	}
}

func TestUnresolvedDoubtIsAViolation(t *testing.T) {
	s := newClusterStory()
	s.publish(0)
	had, other := s.conn(0, 1), s.conn(0, 1)
	s.deliver(had, 0)
	s.deliver(other, 0)
	s.End(s.now)
	if !slices.Contains(s.kinds(), Twice) {
		t.Errorf("violations %v, want %s", s.Violations(), Twice)
	}
}

func TestOneOfTwoDeliveriesAcrossDisturbanceIsFinished(t *testing.T) {
	for _, finish := range []bool{true, false} {
		s := newClusterStory()
		s.publish(0)
		had, other, b := s.conn(0, 1), s.conn(0, 1), s.conn(1, 1)
		s.deliver(b, 0)
		s.fin(b, 0)
		s.Disturb(s.now)
		s.deliver(other, 0)
		if finish {
			s.fin(other, 0)
		}
		s.deliver(had, 0) // it was on its way for longer
		s.Calm(s.now)
		s.End(s.now)
		if unfinished := slices.Contains(s.kinds(), Unfinished); unfinished == finish {
			t.Errorf("finished %v: violations %v", finish, s.Violations())
		}
	}
}

func TestRefusedFinishIsOwedAgain(t *testing.T) {
	s := newClusterStory()
	s.publish(0)
	a, b := s.both(1, 0)
	if s.Stats().Owed != 0 {
		t.Fatal("a finished message is owed")
	}
	s.Refuse(b, id(0))
	if s.Stats().Owed != 1 {
		t.Error("a message whose FIN was refused is not owed")
	}
	s.deliver(b, 0)
	s.fin(b, 0)
	s.Refuse(a, id(7)) // of no message
	if s.Stats().Owed != 0 {
		t.Error("a message is owed that was finished after all")
	}
}

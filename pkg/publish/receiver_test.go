package publish

import (
	"testing"
	"time"
)

func TestReceiverAcceptsRoundWithoutGap(t *testing.T) {
	in := &receiver{}
	for i, c := range []struct {
		round, number uint64
		want          bool
	}{
		{5, 1, false}, // 0 was sent in another session, or never
		{5, 0, false},
		{6, 0, true},
		{6, 1, true},
		{5, 1, false},
		{6, 2, true},
		{6, 4, false},
		{6, 3, false}, // sent after the other
		{7, 0, true},
	} {
		if got := in.turn(c.round, c.number); got != c.want {
			t.Errorf("%d: number %d of round %d: %v", i, c.number, c.round, got)
		}
	}
}

func TestReceiversOfRemovedTopicsAreForgotten(t *testing.T) {
	s := &receivers{all: map[receiverKey]*receiver{}}
	busy := s.receiver(receiverKey{from: "n2", partition: 1})
	for i := range 10_000 {
		busy.used = time.Now()
		s.receiver(receiverKey{from: "n2", topic: 1, partition: i}).used = time.Time{}
	}
	if n := len(s.all); n > fewReceivers {
		t.Errorf("%d are left", n)
	}
	if s.all[receiverKey{from: "n2", partition: 1}] != busy {
		t.Error("one that is used is forgotten")
	}
}

func TestReceiversOfEndedSessionsAreForgotten(t *testing.T) {
	s := &receivers{all: map[receiverKey]*receiver{}}
	for session := range uint64(3) {
		s.receiver(receiverKey{from: "n2", session: session})
		s.receiver(receiverKey{from: "n3", session: session})
	}
	s.down("n2", 1)
	if len(s.all) != 5 || s.all[receiverKey{from: "n2", session: 1}] != nil {
		t.Errorf("%d are left", len(s.all))
	}
}

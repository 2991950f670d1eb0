package publish

import (
	"errors"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/topic"
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

// TestReceiverAcceptsNothingOfARoundAfterARefusal: a publish that was sent behind a refused one would be appended before
// it.
func TestReceiverAcceptsNothingOfARoundAfterARefusal(t *testing.T) {
	for _, c := range []struct {
		name    string
		refused uint64 // the round of the refusal
		err     error
		want    bool // whether the next one of round 5 is accepted
	}{
		{"moving", 5, failure.Moving, false},
		{"not leading", 5, failure.NotLeading, false},
		{"an earlier round", 4, failure.Moving, true},
		{"the message alone", 5, failure.TopicFull, true},
	} {
		in := &receiver{}
		if !in.turn(5, 0) {
			t.Fatal("the first is refused")
		}
		var got error
		in.answer(c.refused, topic.Receipt{Err: c.err}, func(_ [][]byte, err error) { got = err })
		if next := in.turn(5, 1); next != c.want || !errors.Is(got, c.err) {
			t.Errorf("%s: the next is accepted: %v, answered: %v", c.name, next, got)
		}
		if !in.turn(6, 0) {
			t.Errorf("%s: the next round is refused", c.name)
		}
	}
}

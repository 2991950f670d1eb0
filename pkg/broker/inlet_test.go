package broker

import (
	"testing"
	"time"
)

func TestAnInletTakesARoundWithoutAGap(t *testing.T) {
	in := &inlet{}
	for i, c := range []struct {
		round, number uint64
		want          bool
	}{
		{5, 1, false}, // 0 went through another session, or never left
		{5, 0, false},
		{6, 0, true},
		{6, 1, true},
		{5, 1, false},
		{6, 2, true},
		{6, 4, false},
		{6, 3, false}, // it was sent behind the other
		{7, 0, true},
	} {
		if got := in.turn(c.round, c.number); got != c.want {
			t.Errorf("%d: number %d of round %d: %v", i, c.number, c.round, got)
		}
	}
}

func TestInletsOfWhatIsGoneAreForgotten(t *testing.T) {
	s := &inlets{all: map[inletKey]*inlet{}}
	busy := s.inlet(inletKey{from: "n2", partition: 1})
	for i := range 10_000 {
		busy.used = time.Now()
		s.inlet(inletKey{from: "n2", topic: 1, partition: i}).used = time.Time{}
	}
	if n := len(s.all); n > fewInlets {
		t.Errorf("%d are left", n)
	}
	if s.all[inletKey{from: "n2", partition: 1}] != busy {
		t.Error("one that is used is forgotten")
	}
}

package topic

import (
	"errors"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
)

// TestUnstoredOrderedFinishIsAbandoned: the other replicas do not store a FIN, as
// with fewer than min-isr replicas. The consumer gets an error after FinTimeout, and the
// message is delivered again, before its successor.
func TestUnstoredOrderedFinishIsAbandoned(t *testing.T) {
	s := newSet(t)
	c := s.channel("c", 1, true)
	r := s.bench().join(c)
	var told []seq.Offset
	r.o.Unfinished = func(o seq.Offset, err error) {
		if !errors.Is(err, failure.FinNotStored) {
			t.Errorf("told %v", err)
		}
		told = append(told, o)
	}
	s.publish("a", "b")
	s.line.deliverAll()
	want(t, "first", r.take(9, s.now), "a")
	r.finish("a")
	s.now = s.now.Add(FinTimeout - time.Millisecond)
	if again := c.Tick(s.now); !again || len(told) > 0 {
		t.Errorf("before the time is over: ticks %v, errors of %v", again, told)
	}
	want(t, "before the time is over", r.take(9, s.now), "")
	s.now = s.now.Add(time.Millisecond)
	c.Tick(s.now)
	if len(told) != 1 || told[0] != r.got["a"] {
		t.Errorf("errors of %v, want %d", told, r.got["a"])
	}
	want(t, "after the time is over", r.take(9, s.now), "a")
	// The replicas store the abandoned FIN now, while another one waits. A
	// snapshot between the two may have undone the first.
	r.finish("a")
	s.line.deliver(1)
	s.line.deliver(2)
	want(t, "with the old FIN stored alone", r.take(9, s.now), "")
	s.line.deliverAll()
	want(t, "with the new FIN stored", r.take(9, s.now), "b")
	if got := r.Counts().Finished; got != 1 {
		t.Errorf("%d are finished, want 1", got)
	}
}

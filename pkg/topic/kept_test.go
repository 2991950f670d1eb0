package topic

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/processing"
	"github.com/brokerd/brokerd/pkg/seq"
)

func TestPublishesOfMessagesInFlightAreKept(t *testing.T) {
	b := newBench(t)
	b.o.TailBytes = 1 << 20
	c := b.channel("c", 1)
	c.times = processing.New(time.Minute, t0)
	r := b.join(c)
	b.publish("a", "b")
	if got := r.take(1, t0); got != "a" {
		t.Fatalf("took %q", got)
	}
	for o := range seq.Offset(2 * processing.Least) {
		r.published.Add(o+10, 0)
	}
	if got := r.take(1, t0); got != "b" || r.published.Len() != 2 {
		t.Errorf("took %q, and %d publishes are kept", got, r.published.Len())
	}
}

package topic

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/seq"
)

// A consumer does not keep for ever when messages were published that it lost: they timed
// out, and others finished them.
func TestPublishesOfLostMessagesAreForgotten(t *testing.T) {
	var p published
	for o := range seq.Offset(leastPublished - 1) {
		p.note(o, time.Duration(o))
	}
	none := new(channel.State).TakenBy(1)
	if p.trim(none); len(p.at) != leastPublished-1 {
		t.Errorf("%d are kept of few", len(p.at))
	}
	p.note(leastPublished, leastPublished)
	if p.trim(none); len(p.at) != 0 {
		t.Errorf("%d are kept of none", len(p.at))
	}
}

func TestPublishesOfMessagesInFlightAreKept(t *testing.T) {
	b := newBench(t)
	b.o.TailBytes = 1 << 20
	c := b.channel("c", 1)
	c.times = newProcessing(time.Minute, t0)
	r := b.join(c)
	b.publish("a", "b")
	if got := r.take(1, t0); got != "a" {
		t.Fatalf("took %q", got)
	}
	for o := range seq.Offset(2 * leastPublished) {
		r.published.note(o+10, 0)
	}
	if got := r.take(1, t0); got != "b" || len(r.published.at) != 2 {
		t.Errorf("took %q, and %d publishes are kept", got, len(r.published.at))
	}
}

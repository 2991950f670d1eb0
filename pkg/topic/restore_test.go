package topic

import (
	"errors"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/flow"
)

// TestRestoredChannelBeginsAtLogStart: retention may have removed messages to
// which a stored position refers.
func TestRestoredChannelBeginsAtLogStart(t *testing.T) {
	b := newBench(t)
	b.channel("c", 1)
	big := strings.Repeat("x", 10_000)
	for range 40 {
		b.publish(big)
	}
	if err := b.p.Close(errors.New("restart")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.log.Retain(commitlog.Retention{MaxBytes: 100_000}); err != nil {
		t.Fatal(err)
	}
	start := b.log.Start()
	if start == 0 {
		t.Fatal("nothing was dropped")
	}
	if err := b.log.Close(); err != nil {
		t.Fatal(err)
	}
	b.open()
	c := b.channel("c", 1)
	if got := c.Floor(); got != start {
		t.Errorf("the channel begins at %d, the log at %d", got, start)
	}
	if got, want := c.Stats().Depth, int64(40-start); got != want {
		t.Errorf("depth %d, want %d", got, want)
	}
}

// TestChannelMissingFromOlderSnapshotSkipsNothing: the newest snapshot is gone, and
// the one before it was stored before the channel was created.
func TestChannelMissingFromOlderSnapshotSkipsNothing(t *testing.T) {
	b := newBench(t)
	b.publish("1", "2", "3")
	b.channel("a", 1)
	b.channel("b", 2) // starts at 3
	b.publish("4", "5", "6")
	if err := b.log.Close(); err != nil { // the process is killed
		t.Fatal(err)
	}
	if err := b.fs.Remove("p/positions.0"); err != nil {
		t.Fatal(err)
	}
	b.open()
	b.channel("a", 1)
	if got := b.channel("b", 2).Floor(); got > 3 {
		t.Errorf("the channel begins at %d: it skips messages that it was to get", got)
	}
	b.p.ChannelsComplete()
	if got := b.channel("c", 3).Floor(); got != 6 {
		t.Errorf("a new channel begins at %d, want 6", got)
	}
}

// What a channel had when its leader started is no rate of messages that come in.
func TestBacklogDoesNotComeInAtAStart(t *testing.T) {
	b := newBench(t)
	b.channel("c", 1)
	b.publish("1", "2", "3", "4", "5")
	b.restart()
	c := b.channel("c", 1)
	rates := func() flow.Rates {
		b.now = b.now.Add(flow.Every)
		c.Measure(b.now)
		return c.Flow.Rates(b.now, c.Stats().Totals())
	}
	if r := rates(); r != (flow.Rates{}) {
		t.Errorf("after a start: %+v", r)
	}
	b.publish("6")
	if r := rates(); r.In <= 0 || r.Out != 0 {
		t.Errorf("after a publish: %+v", r)
	}
}

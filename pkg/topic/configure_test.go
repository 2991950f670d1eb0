package topic

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/policy"
)

// A change of one channel configures all channels of its topic again: only what changes
// is stored.
func TestUnchangedConfigurationIsNotStoredAgain(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	number := func() uint64 {
		t.Helper()
		if err := b.p.Checkpoint(); err != nil {
			t.Fatal(err)
		}
		return stored(t, b.fs, "p").Number
	}
	first := number()
	c.Configure(ChannelOptions{})
	b.channel("c", 1)
	if n := number(); n != first {
		t.Errorf("snapshot %d behind %d, though nothing changed", n, first)
	}
	for i, o := range []ChannelOptions{{Paused: true}, {Paused: true, Order: policy.Strict}, {Order: policy.Strict}, {}} {
		c.Configure(o)
		if n := number(); n != first+uint64(i)+1 {
			t.Errorf("%+v: snapshot %d behind %d", o, n, first)
		}
	}
}

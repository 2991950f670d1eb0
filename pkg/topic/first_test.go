package topic

import "testing"

// first adds a channel that the metadata created while the topic had no durable channel.
func (b *bench) first(name string, version uint64) *Channel {
	b.t.Helper()
	c, err := b.p.AddChannel(name, version, ChannelOptions{First: true})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// A leader may apply the deletion of a topic's last channel and the creation of the next one together. What
// was published in between has reached no channel.
func TestFirstChannelSkipsNothingBehindADeletedOne(t *testing.T) {
	for _, next := range []string{"new", "old"} { // the latter is created again
		b := newBench(t)
		r := b.join(b.first("old", 1))
		b.publish("finished")
		r.finish(r.take(9, t0))
		b.publish("published after the deletion")
		c := b.join(b.first(next, 2))
		if next != "old" {
			if err := b.p.RemoveChannel("old"); err != nil {
				t.Fatal(err)
			}
		}
		want(t, "the channel "+next, c.take(9, t0), "published after the deletion")
	}
}

// A channel is not the first one while an ephemeral one receives the messages, or another durable one did.
func TestLaterChannelStartsAtTheEnd(t *testing.T) {
	b := newBench(t)
	b.first("old", 1)
	b.publish("seen")
	want(t, "beside a durable channel", b.join(b.channel("later", 2)).take(9, t0), "")
	b.channel("some#ephemeral", 0)
	b.publish("seen")
	want(t, "beside an ephemeral channel", b.join(b.first("first", 3)).take(9, t0), "")
}

// What deleted channels had finished is not delivered to the next first channel, if the leader learns of their
// deletion as it opens the partition.
func TestFirstChannelContinuesAfterDeletedOnes(t *testing.T) {
	for _, late := range []bool{false, true} {
		b := newBench(t)
		old, older := b.join(b.first("old", 1)), b.join(b.channel("older", 2))
		b.publish("a", "b", "c")
		for _, r := range []*reader{old, older} {
			r.take(9, t0)
			r.finish("a", "b")
		}
		old.finish("c")
		b.restart()
		if late { // the next channel is created later
			b.p.ChannelsComplete()
			if floor := b.p.Floor(); floor != 2 {
				t.Errorf("retention keeps what is at or above %d", floor)
			}
			b.restart()
		}
		want(t, "the next channel", b.join(b.first("next", 3)).take(9, t0), "c")
	}
}

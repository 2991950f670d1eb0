package topic

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
)

// addressed returns a copy, for one channel, of the message at an offset of partition
// 3.
func addressed(body string, version uint64, origin seq.Offset) Message {
	return Message{Body: []byte(body), Address: &record.Address{
		Channel: version, Partition: 3, Offset: origin, Timestamp: 42, Attempts: 3,
	}}
}

// inPlaceOf is like addressed, with a copy that replaces its origin.
func inPlaceOf(body string, version uint64, origin seq.Offset, delay time.Duration) Message {
	m := addressed(body, version, origin)
	m.Address.Moves, m.Delay = true, delay
	return m
}

func TestAddressedMessageReachesOnlyItsChannel(t *testing.T) {
	b := newBench(t)
	mine, other, brief := b.channel("mine", 1), b.channel("other", 2), b.channel("brief#ephemeral", 0)
	b.publish("a")
	b.publishAll([]Message{addressed("b", 1, 0), {Body: []byte("c")}})
	for name, c := range map[string]*Channel{"other": other, "brief": brief} {
		if n := c.Stats(); n.Depth != 2 || n.Messages != 2 {
			t.Errorf("%s: %+v, want 2 messages", name, n)
		}
	}
	if n := b.p.Counts().Messages; n != 2 {
		t.Errorf("%d messages are published, want 2: a copy is none", n)
	}
	if seen, err := b.p.Peek(other, 0, 9, 99); err != nil || len(seen) != 2 {
		t.Errorf("peeked at %d messages, error %v", len(seen), err)
	}
	want(t, "other", b.join(other).take(9, t0), "a c")
	want(t, "brief", b.join(brief).take(9, t0), "a c")
	r := b.join(mine)
	var got []Delivery
	for range 3 {
		if _, err := r.Take(t0, 1, func(d *Delivery) error { got = append(got, *d); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if d := got[0]; d.Timestamp != 42 || d.Attempts != 4 {
		t.Errorf("delivered with timestamp %d, attempt %d; want those of the origin and one more", d.Timestamp, d.Attempts)
	}
	// A channel that was moved back skips copies for other channels.
	if err := other.Seek(0); err != nil {
		t.Fatal(err)
	}
	if seen, err := b.p.Peek(other, 0, 9, 99); err != nil || len(seen) != 2 {
		t.Errorf("led back, it peeks at %d messages, error %v", len(seen), err)
	}
	want(t, "other, led back", b.join(other).take(9, t0), "a c")
}

func TestRecreatedChannelGetsNoOldAddressedMessages(t *testing.T) {
	b := newBench(t)
	b.channel("other", 1)
	b.channel("c", 2)
	b.publishAll([]Message{addressed("a", 2, 0)})
	b.p.ChannelsComplete()
	if err := b.p.RemoveChannel("c"); err != nil {
		t.Fatal(err)
	}
	c := b.channel("c", 3)
	b.publishAll([]Message{addressed("b", 2, 0), addressed("d", 3, 0)})
	want(t, "the recreated channel", b.join(c).take(9, t0), "d")
}

func TestCopyReplacesItsOrigin(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	b.publish("a", "b")
	r := b.join(c)
	want(t, "first", r.take(1, t0), "a")
	b.publishAll([]Message{inPlaceOf("a", 1, 0, time.Hour)})
	if err := r.Requeue(r.got["a"], t0, time.Hour); err != nil {
		t.Fatalf("the consumer cannot answer by the old id: %v", err)
	}
	if n := c.Stats(); n.Deferred != 1 || n.Depth != 1 || n.Floor != 1 || n.Messages != 2 {
		t.Errorf("%+v; want one deferred, one waiting, and the floor behind the origin", n)
	}
	want(t, "before it is due", r.take(9, t0), "b")
	r.finish("b")
	c.Tick(t0.Add(time.Hour))
	want(t, "when due", r.take(9, t0.Add(time.Hour)), "a")
}

// A leader that was killed after the copy was committed, and before any node knew the
// outcome of the origin, must not be followed by a second delivery.
func TestNextLeaderFindsCopiesMissingFromPositions(t *testing.T) {
	s := newSet(t)
	c := s.channel("c", 1, false)
	s.channel("other", 2, false)
	s.p.ChannelsComplete()
	s.publish("a", "b")
	r := s.bench().join(c)
	want(t, "first", r.take(1, s.now), "a")
	s.line.deliverAll()
	s.line.auto = true
	if err := s.p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.line.auto = false
	s.p.Publish([]Message{inPlaceOf("a", 1, 0, time.Hour)}, func(Receipt) {})
	s.lead(1)
	c, other := s.channel("c", 1, false), s.channel("other", 2, false)
	s.p.ChannelsComplete()
	if n := c.Stats(); n.Deferred != 1 || n.Depth != 1 || n.Floor != 1 {
		t.Errorf("%+v; want the copy deferred and the origin finished", n)
	}
	if n := other.Stats(); n.Depth != 2 {
		t.Errorf("the other channel has %d waiting, want 2", n.Depth)
	}
	r = s.bench().join(c)
	want(t, "after the fail-over", r.take(9, s.now), "b")
	r.finish("b")
	s.now = s.now.Add(time.Hour)
	c.Tick(s.now)
	want(t, "when due", r.take(9, s.now), "a")
}

// A message was deferred just before its leader was killed. The next leader counts it as
// deferred without a consumer: operators list and cancel deferred messages in channels without
// consumers.
func TestNextLeaderKnowsDeferredMessages(t *testing.T) {
	s := newSet(t)
	s.channel("c", 1, false)
	s.channel("strict", 2, true)
	s.p.ChannelsComplete()
	s.publish("a")
	s.line.deliverAll()
	s.publishLate("hour", time.Hour)
	s.publishLate("minute", time.Minute)
	s.now = s.now.Add(time.Minute)
	s.lead(1)
	all := map[string]*Channel{"c": s.channel("c", 1, false), "strict": s.channel("strict", 2, true)}
	s.p.ChannelsComplete()
	for name, c := range all {
		if n := c.Stats(); n.Deferred != 1 || n.Depth != 2 {
			t.Errorf("%s has %d deferred and %d waiting, want 1 and 2", name, n.Deferred, n.Depth)
		}
	}
	want(t, "after the fail-over", s.bench().join(all["c"]).take(9, s.now), "a minute")
}

// A deferred message that is not committed does not hold back the channel. It counts as deferred
// once it is committed.
func TestUncommittedDeferralDelaysNothing(t *testing.T) {
	b := newBench(t)
	b.channel("c", 1)
	b.publish("a")
	batch := b.reopenBefore(Message{Body: []byte("late"), Delay: time.Hour})
	c := b.channel("c", 1)
	b.p.ChannelsComplete()
	r := b.join(c)
	want(t, "what is committed", r.take(9, b.now), "a")
	if n := c.Stats(); n.Deferred != 0 || n.Depth != 0 {
		t.Errorf("before it is committed: %+v", n.Counts)
	}
	if _, err := b.w.Sync(); err != nil {
		t.Fatal(err)
	}
	b.log.Commit(batch.End())
	b.p.Committed(commitlog.Batch{})
	if n := c.Stats(); n.Deferred != 1 || n.Depth != 0 {
		t.Errorf("once it is committed: %+v", n.Counts)
	}
	want(t, "what is deferred", r.take(9, b.now), "")
}

// Messages in the log may not be committed. Until the committed end is known, neither the
// message nor its copy is delivered.
func TestNothingIsDeliveredBeforeCopiesAreResolved(t *testing.T) {
	b := newBench(t)
	b.channel("c", 1)
	b.publish("a")
	batch := b.reopenBefore(inPlaceOf("a", 1, 0, 0))
	r := b.join(b.channel("c", 1))
	b.p.ChannelsComplete()
	want(t, "while the copy is not committed", r.take(9, t0), "")
	wakes := r.wakes
	b.log.Commit(batch.End())
	b.p.Committed(commitlog.Batch{})
	if r.wakes == wakes {
		t.Error("the consumer was not woken")
	}
	want(t, "afterwards", r.take(9, t0), "a")
	if got := r.got["a"]; got != 1 {
		t.Errorf("delivered from offset %d, want the copy", got)
	}
}

func TestCopyOfFinishedMessageIsNotDelivered(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	b.publish("a")
	r := b.join(c)
	r.take(1, t0)
	r.finish("a")
	b.publishAll([]Message{inPlaceOf("a", 1, 0, 0)})
	want(t, "afterwards", r.take(9, t0), "")
	if n := c.Stats(); n.Depth != 0 || n.Floor != 2 {
		t.Errorf("%+v; want everything finished", n)
	}
}

func TestPublishesAloneBoundTheLogScan(t *testing.T) {
	b := newBench(t)
	b.channel("c", 1)
	b.p.ChannelsComplete()
	if err := b.p.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 1<<20)
	for range addressedWithin>>20 + 1 {
		b.publishAll([]Message{{Body: big}})
	}
	before := stored(t, b.fs, "p").Number
	if err := b.p.Checkpoint(); err != nil || stored(t, b.fs, "p").Number == before {
		t.Errorf("nothing is stored: %v", err)
	}
	if got, want := b.p.collector.Current().Addressed, b.log.CommittedEnd(); got != want {
		t.Errorf("stored: told to %d, want %d", got, want)
	}
}

// reopenBefore appends a message that is not committed, and opens the partition again.
func (b *bench) reopenBefore(m Message) commitlog.Batch {
	b.t.Helper()
	if err := b.p.Close(nil); err != nil {
		b.t.Fatal(err)
	}
	builder := new(commitlog.Builder)
	appendRecord(&m, builder)
	batch, err := b.w.Append(builder, b.wall(b.now))
	if err != nil {
		b.t.Fatal(err)
	}
	b.openPartition()
	return batch
}

// TestNumbersWhileMessagesAreHidden: a channel tracks messages for others before they are visible, in
// a paused topic long before. They must not be subtracted from its depth, nor from the number of its
// messages: metrics take a counter that falls for a new one.
func TestNumbersWhileMessagesAreHidden(t *testing.T) {
	b := newBench(t)
	b.channel("mine", 1)
	other := b.channel("other", 2)
	b.publish("a", "b", "c")
	before := other.Stats()
	if before.Messages != 3 {
		t.Fatalf("%d messages, want 3", before.Messages)
	}
	b.p.Configure(Settings{Paused: true})
	late := Message{Body: []byte("late"), Delay: time.Hour}
	soon := Message{Body: []byte("soon"), Delay: time.Second}
	b.publishAll([]Message{addressed("x", 1, 0), addressed("y", 1, 1), late, soon, {Body: []byte("d")}})
	if n := other.Stats(); n.Messages != 3 || n.Depth != 3 || n.Deferred != 2 {
		t.Errorf("while the topic is paused: %+v, want 3 messages that wait", n.Counts)
	}
	b.p.Configure(Settings{Paused: false})
	if n := other.Stats(); n.Messages != 6 || n.Depth != 4 || n.Deferred != 2 {
		t.Errorf("afterwards: %+v, want 6 messages of which 4 wait", n.Counts)
	}
}

// What a seek would redeliver or skip are the messages of the channel, whether it met those for others before or not.
func TestEffectOfASeekExcludesMessagesForOthers(t *testing.T) {
	b := newBench(t)
	mine, other := b.channel("mine", 1), b.channel("other", 2)
	b.publish("a")
	b.publishAll([]Message{addressed("b", 1, 0), {Body: []byte("c")}})
	b.publishAll([]Message{addressed("d", 1, 0)})
	b.publish("e")
	start, end := seq.Offset(0), seq.Offset(5)
	effect := func(what string, c *Channel, to seq.Offset, redelivered, skipped int64) {
		t.Helper()
		p := c.Operator().Exact(t.Context(), c.Operator().Place(&to))
		if p.Redelivered != redelivered || p.Skipped != skipped {
			t.Errorf("%s: %d would be redelivered and %d skipped, want %d and %d", what, p.Redelivered, p.Skipped, redelivered, skipped)
		}
	}
	effect("other, at the start", other, end, 0, 3)
	effect("other, to where it is", other, start, 0, 0)
	effect("mine, at the start", mine, end, 0, 5)
	for _, c := range []*Channel{mine, other} {
		if err := c.Seek(end); err != nil {
			t.Fatal(err)
		}
	}
	effect("other, back", other, start, 3, 0)
	effect("other, back to the message for another", other, 3, 1, 0)
	effect("mine, back", mine, start, 5, 0)
	for _, c := range []*Channel{mine, other} {
		if err := c.Seek(start); err != nil {
			t.Fatal(err)
		}
	}
	effect("other, forward again", other, end, 0, 3)
	effect("other, in part", other, 2, 0, 1)
	effect("mine, forward again", mine, end, 0, 5)
}

package topic

import (
	"errors"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// attempts returns the state of a message in a channel, and its number of
// deliveries.
func attempts(c *Channel, r *reader, body string) (channel.MessageState, uint16) {
	return stateOf(c, r.got[body])
}

func (r *reader) requeue(now time.Time, delay time.Duration, bodies ...string) {
	r.t.Helper()
	for _, s := range bodies {
		if err := r.Requeue(r.got[s], now, delay); err != nil {
			r.t.Fatalf("requeue %q: %v", s, err)
		}
	}
}

// The process is killed before a checkpoint. Deliveries to a consumer are
// counted nevertheless.
func TestAttemptsSurviveAKill(t *testing.T) {
	b := &bench{t: t, fs: vfs.NewCrashable(), now: t0}
	if err := b.fs.MkdirAll("p"); err != nil {
		t.Fatal(err)
	}
	b.open()
	t.Cleanup(func() { b.log.Close() })
	c := b.channel("c", 1)
	RetriesOf(c).SetPolicy(policy.Policy{MaxAttempts: 5, OnExhausted: policy.Block}, nil)
	r := b.join(c)
	b.publish("a")
	for range 3 {
		want(t, "taken", r.take(1, b.now), "a")
		r.requeue(b.now, 0, "a")
	}
	want(t, "in flight when it is killed", r.take(1, b.now), "a")
	b.fs = killed(b.fs.(*vfs.Mem))
	b.open()
	c = b.channel("c", 1)
	if state, n := attempts(c, r, "a"); n < 3 || n > 4 || state != channel.Ready {
		t.Errorf("%d attempts in state %d after a kill at the 4th", n, state)
	}
}

// A leader fails, and the next one continues its counts. A message is not delivered
// again before the other replicas know its number of deliveries.
func TestAttemptsSurviveAFailOver(t *testing.T) {
	s := newSet(t)
	bound := policy.Policy{MaxAttempts: 3, OnExhausted: policy.Block}
	c := s.channel("c", 1, false)
	RetriesOf(c).SetPolicy(bound, nil)
	s.line.deliverAll()
	r := s.bench().join(c)
	s.publish("a")
	for range 2 {
		want(t, "taken", r.take(9, s.now), "a")
		r.requeue(s.now, 0, "a")
		want(t, "before the others know", r.take(9, s.now), "")
		s.line.deliverAll()
	}
	s.lead(1)
	c = s.channel("c", 1, false)
	RetriesOf(c).SetPolicy(bound, nil)
	r2 := s.bench().join(c)
	want(t, "at the next leader", r2.take(9, s.now), "a")
	if _, n := attempts(c, r, "a"); n != 3 {
		t.Errorf("%d attempts, want 3", n)
	}
	r2.requeue(s.now, 0, "a")
	if state, _ := attempts(c, r, "a"); state != channel.Exhausted {
		t.Errorf("state %d after the last attempt", state)
	}
	want(t, "after the last attempt", r2.take(9, s.now.Add(time.Hour)), "")
}

func TestDisposerTakesExhaustedMessages(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		b := newBench(t)
		var poked int
		b.p.o.Exhausted = func(*Channel) { poked++ }
		c := b.channel("c", 1)
		c.Configure(ChannelOptions{Order: policy.StrictIf(ordered)})
		RetriesOf(c).SetPolicy(policy.Policy{MaxAttempts: 1, OnExhausted: policy.Drop}, nil)
		r := b.join(c, func(o *ConsumerOptions) { o.Name = "worker-7" })
		b.publish("a", "b")
		want(t, "taken", r.take(1, b.now), "a")
		r.requeue(b.now, time.Minute, "a")
		if state, _ := attempts(c, r, "a"); state != channel.Exhausted {
			t.Fatalf("ordered: state %d", state)
		}
		if again := c.Tick(b.now); !again || poked != 1 {
			t.Fatalf("ordered %v: ticks on %v, told %d times", ordered, again, poked)
		}
		d := RetriesOf(c).NewDisposer()
		var got []Exhausted
		take := func() int {
			n, err := d.Take(b.now, 9, func(e *Exhausted) error { got = append(got, *e); return nil })
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := take(); n != 1 || string(got[0].Body) != "a" || got[0].Consumer != "worker-7" || got[0].Attempts != 1 {
			t.Fatalf("ordered %v: %d: %+v", ordered, n, got)
		}
		d.Keep(&got[0])
		if n := take(); n != 1 || got[1].Consumer != "worker-7" {
			t.Fatalf("ordered %v: kept, then %d: %+v", ordered, n, got)
		}
		if ordered {
			want(t, "before it is finished", r.take(9, b.now), "")
		}
		if err := d.Finish(&got[1], false); err != nil {
			t.Fatal(err)
		}
		want(t, "behind it", r.take(9, b.now), "b")
		if c.Floor() != 1 || c.Failed.Dropped() != 1 || c.Failed.DeadLettered() != 0 {
			t.Errorf("ordered %v: floor %d, %d dropped", ordered, c.Floor(), c.Failed.Dropped())
		}
		d.Close()
	}
}

// A message that a disposer does not settle returns to the channel.
func TestClosedDisposerReturnsItsMessages(t *testing.T) {
	b := newBench(t)
	b.p.o.Exhausted = func(*Channel) {}
	c := b.channel("c", 1)
	RetriesOf(c).SetPolicy(policy.Policy{MaxAttempts: 1}, nil)
	r := b.join(c)
	b.publish("a", "b")
	want(t, "taken", r.take(9, b.now), "a b")
	r.requeue(b.now, 0, "a", "b")
	b.join(c, func(o *ConsumerOptions) { o.Name = "worker-7" }).Leave()
	b.now = b.now.Add(time.Second)
	d := RetriesOf(c).NewDisposer()
	full := errors.New("full")
	if n, err := d.Take(b.now, 9, func(e *Exhausted) error {
		if string(e.Body) == "b" {
			return full
		}
		return nil
	}); n != 1 || !errors.Is(err, full) {
		t.Fatalf("%d, %v", n, err)
	}
	left := c.Stats()
	d.Close()
	if got := c.Stats().Exhausted; got != 2 {
		t.Errorf("%d are left, want 2", got)
	}
	if s := c.Stats(); s.LastConsumer != "worker-7" || !s.LeftAt.Equal(left.LeftAt) {
		t.Errorf("%q left last, at %v; want the last consumer, which is no disposer", s.LastConsumer, s.LeftAt)
	}
	r.Leave()
	again := b.join(c)
	want(t, "with another consumer", again.take(9, b.now), "")
	RetriesOf(c).SetPolicy(policy.Policy{MaxAttempts: 2}, nil)
	want(t, "with more attempts", again.take(9, b.now), "a b")
}

func TestDeliveryRateIsKept(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	var rates policy.Rates
	rates.Share(1, 2, b.now)
	RetriesOf(c).SetPolicy(policy.Policy{Rate: 100}, rates.Of("c", 0, 100, b.now))
	r := b.join(c)
	for range 40 {
		b.publish("m")
	}
	taken := func() int { return len(r.take(99, b.now)+" ") / 2 }
	if n := taken(); n != 5 {
		t.Errorf("%d at first, want a tenth of half of 100", n)
	}
	if n := taken(); n != 0 || !c.Stats().Limited || !c.Tick(b.now) {
		t.Errorf("%d at once, limited %v", n, c.Stats().Limited)
	}
	b.now = b.now.Add(20 * time.Millisecond)
	if n := taken(); n != 1 {
		t.Errorf("%d after 20 ms, want 1", n)
	}
	rates.Share(2, 2, b.now)
	b.now = b.now.Add(20 * time.Millisecond)
	if n := taken(); n != 2 {
		t.Errorf("%d after 20 ms with all partitions, want 2", n)
	}
	RetriesOf(c).SetPolicy(policy.Policy{}, rates.Of("c", 0, 0, b.now))
	if n := taken(); n != 32 || c.Stats().Limited {
		t.Errorf("%d without a rate, want the rest; limited %v", n, c.Stats().Limited)
	}
}

// A consumer that finds no message uses up no attempts.
func TestRateCountsOnlyDeliveredMessages(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	var rates policy.Rates
	RetriesOf(c).SetPolicy(policy.Policy{Rate: 100}, rates.Of("c", 0, 100, b.now))
	r := b.join(c)
	want(t, "of an empty channel", r.take(9, b.now), "")
	b.publish("a", "b", "c")
	want(t, "at once", r.take(9, b.now), "a b c")
}

// A message that was appended again after long requeues is exhausted where it is now, and names the first of its kind:
// its second copy named the first copy, and its letter had another dedup id than before.
func TestExhaustedMessageNamesWhatItReplaces(t *testing.T) {
	b := movingBench(t, MovePolicy{RequeueInMemory: time.Minute})
	b.p.o.Exhausted = func(*Channel) {}
	c := b.channel("c", 1)
	RetriesOf(c).SetPolicy(policy.Policy{MaxAttempts: 3, OnExhausted: policy.Drop}, nil)
	r := b.join(c)
	b.publish("a", "b")
	want(t, "first", r.take(2, b.now), "a b")
	for range 2 {
		r.requeue(b.now, time.Hour, "a")
		r.requeue(b.now, 0, "b")
		b.moved()
		b.now = b.now.Add(time.Hour)
		c.Tick(b.now)
		want(t, "again", r.take(2, b.now), "b a")
	}
	r.requeue(b.now, 0, "a", "b")
	got := map[string][2]seq.Offset{}
	d := RetriesOf(c).NewDisposer()
	defer d.Close()
	if _, err := d.Take(b.now, 2, func(e *Exhausted) error { got[string(e.Body)] = [2]seq.Offset{e.ID.Offset(), e.Origin}; return nil }); err != nil {
		t.Fatal(err)
	}
	if got["a"] != [2]seq.Offset{3, 0} || got["b"] != [2]seq.Offset{1, 1} {
		t.Errorf("offsets and origins %v", got)
	}
}

func stateOf(c *Channel, o seq.Offset) (state channel.MessageState, attempts uint16) {
	c.Look(func(v channel.View) { state, attempts = v.StateOf(o) })
	return state, attempts
}

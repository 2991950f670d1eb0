package topic

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
)

// movingBench is a bench on which long requeues are appended again.
func movingBench(t *testing.T, policy MovePolicy) *bench {
	b := newBench(t)
	b.p.o.Moves = policy
	return b
}

// moved waits until the mover is idle.
func (b *bench) moved() {
	for !b.p.mover.queue.Idle() {
		runtime.Gosched()
	}
}

func TestLongRequeueIsAppendedAgainForItsChannel(t *testing.T) {
	b := movingBench(t, MovePolicy{RequeueInMemory: time.Minute})
	c, other := b.channel("c", 1), b.channel("other", 2)
	b.publishAll([]Message{{Body: []byte("a"), TraceID: 7, Key: []byte("k"), Dedup: []byte("d"), TTL: time.Hour}})
	b.publish("b")
	r := b.join(c)
	want(t, "first", r.take(2, t0), "a b")
	b.now = t0.Add(time.Second)
	for body, delay := range map[string]time.Duration{"a": time.Minute + 1, "b": time.Minute} {
		if err := r.Requeue(r.got[body], b.now, delay); err != nil {
			t.Fatal(err)
		}
	}
	b.moved()
	if end := b.log.End(); end != 3 {
		t.Fatalf("the log ends at %d; want a copy of the one that was delayed for longer", end)
	}
	seen, err := b.p.Peek(c, 2, 1, 99)
	if err != nil || len(seen) != 1 {
		t.Fatalf("peeked at %d, error %v", len(seen), err)
	}
	m := seen[0].Message
	if a := m.Address; !a.Moves || a.Channel != 1 || a.Offset != 0 || a.Partition != 3 || a.Attempts != 1 || a.Timestamp != t0.UnixNano() {
		t.Errorf("address %+v", a)
	}
	if string(m.Key) != "k" || m.Dedup != nil || m.TraceID != 7 || m.TTL != time.Hour-time.Second || m.Delay != time.Minute+1 {
		t.Errorf("copied as %+v", m)
	}
	if n := c.Stats(); n.Deferred != 2 || n.Floor != 1 {
		t.Errorf("%+v; want both deferred, and the floor behind the first", n)
	}
	if n := other.Stats(); n.Depth != 2 {
		t.Errorf("the other channel has %d waiting", n.Depth)
	}
	if err := r.Finish(r.got["a"]); !errors.Is(err, failure.NotInFlight) {
		t.Errorf("finished what was requeued: %v", err)
	}
	c.Tick(b.now.Add(2 * time.Minute))
	want(t, "when due", r.take(2, b.now.Add(2*time.Minute)), "b a")
}

func TestOrderedAndEphemeralRequeuesAreNotAppendedAgain(t *testing.T) {
	b := movingBench(t, MovePolicy{RequeueInMemory: time.Minute})
	brief := b.channel("brief#ephemeral", 0)
	ordered, err := b.p.AddChannel("ordered", 2, ChannelOptions{Order: policy.Strict})
	if err != nil {
		t.Fatal(err)
	}
	paused, spent := b.channel("paused", 3), b.channel("spent", 4)
	RetriesOf(spent).SetPolicy(policy.Policy{MaxAttempts: 1, OnExhausted: policy.Block}, nil)
	b.publish("a")
	for _, c := range []*Channel{brief, ordered, spent, paused} {
		r := b.join(c)
		want(t, c.Name(), r.take(1, t0), "a")
		b.p.Configure(Settings{Paused: c == paused})
		if err := r.Requeue(0, t0, time.Hour); err != nil {
			t.Fatal(err)
		}
		b.moved() // before the topic is paused
		if end := b.log.End(); end != 1 {
			t.Fatalf("%s: the log ends at %d", c.Name(), end)
		}
	}
}

func TestNoCopyWithoutDiskSpace(t *testing.T) {
	b := movingBench(t, MovePolicy{RequeueInMemory: 1, Room: func([]Message) bool { return false }})
	c := b.channel("c", 1)
	b.publish("a")
	r := b.join(c)
	r.take(1, t0)
	if err := r.Requeue(0, t0, time.Hour); err != nil {
		t.Fatal(err)
	}
	b.moved()
	if n := c.Stats(); b.log.End() != 1 || n.Deferred != 1 || n.Floor != 0 {
		t.Errorf("log end %d, %+v", b.log.End(), n)
	}
}

// One message that stays in flight, and one that is deferred for long, keep no segment for
// longer than the policy says.
func TestStragglersDoNotKeepOldSegments(t *testing.T) {
	for name, policy := range map[string]MovePolicy{
		"by size": {CarryBytes: 1 << 18}, "by age": {CarryAge: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			b := movingBench(t, policy)
			c := b.channel("c", 1)
			r := b.join(c, func(o *ConsumerOptions) { o.Timeout, o.MaxTimeout = 9*time.Hour, 9*time.Hour })
			body := bytes.Repeat([]byte("x"), 1<<12)
			for i := range 200 {
				b.publish(fmt.Sprint(i, " ", string(body)))
			}
			flying := seq.Offset(3)
			if _, err := r.Take(t0, 200, func(*Delivery) error { return nil }); err != nil {
				t.Fatal(err)
			}
			for o := range seq.Offset(200) {
				switch o {
				case flying:
				case 5:
					if err := r.Requeue(o, t0, 4*time.Hour); err != nil {
						t.Fatal(err)
					}
				default:
					if err := r.Finish(o); err != nil {
						t.Fatal(err)
					}
				}
			}
			b.now = t0.Add(2 * time.Hour)
			for range 2 {
				if err := b.p.Retain(commitlog.Retention{Now: b.now}); err != nil {
					t.Fatal(err)
				}
				b.moved()
			}
			if start := b.log.Start(); start <= 5 {
				t.Errorf("the log starts at %d", start)
			}
			if n := c.Stats(); n.InFlight != 1 || n.Deferred != 1 {
				t.Errorf("%+v", n)
			}
			seen, err := b.p.Peek(c, 200, 9, 1<<20)
			if err != nil || len(seen) != 2 || seen[0].Message.Delay != 0 || seen[1].Message.Delay != 2*time.Hour {
				t.Errorf("carried: %d messages, error %v; want one at once, and one with what is left of its delay", len(seen), err)
			}
			if err := r.Finish(flying); err != nil {
				t.Errorf("the consumer cannot finish by the id that it knows: %v", err)
			}
			c.Tick(t0.Add(4 * time.Hour))
			n := 0
			if _, err := r.Take(t0.Add(4*time.Hour), 9, func(*Delivery) error { n++; return nil }); err != nil || n != 1 {
				t.Errorf("took %d when the deferred one is due, error %v", n, err)
			}
		})
	}
}

func TestBacklogIsNotCarriedForward(t *testing.T) {
	b := movingBench(t, MovePolicy{CarryBytes: 1 << 16})
	c := b.channel("c", 1)
	for range 100 {
		b.publish(string(bytes.Repeat([]byte("x"), 1<<12)))
	}
	r := b.join(c)
	if _, err := r.Take(t0, 50, func(*Delivery) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := b.p.Retain(commitlog.Retention{Now: t0, Moment: t0}); err != nil {
		t.Fatal(err)
	}
	b.moved()
	if end := b.log.End(); end != 100 {
		t.Errorf("the log ends at %d", end)
	}
}

// TestMoveHidesNoMessage: the topic is paused after a message was queued to be appended again.
func TestMoveHidesNoMessage(t *testing.T) {
	b := movingBench(t, MovePolicy{RequeueInMemory: time.Minute})
	c := b.channel("c", 1)
	b.publish("a")
	r := b.join(c)
	want(t, "first", r.take(1, t0), "a")
	if err := r.Requeue(0, t0, time.Minute); err != nil {
		t.Fatal(err)
	}
	b.p.Configure(Settings{Paused: true})
	b.p.mover.move([]moving{{c, 0, t0.Add(time.Minute)}})
	b.now = t0.Add(2 * time.Minute)
	c.Tick(b.now)
	want(t, "when due in the paused topic", r.take(1, b.now), "a")
	if end := b.log.End(); end != 1 {
		t.Errorf("the log ends at %d: a copy was appended", end)
	}
}

// TestMovedRedrivenMessageHasTheRestOfItsTime: its time to live counts from its origin's publish.
func TestMovedRedrivenMessageHasTheRestOfItsTime(t *testing.T) {
	b := movingBench(t, MovePolicy{RequeueInMemory: time.Minute})
	c := b.channel("c", 1)
	b.publishAll([]Message{{Body: []byte("a"), TTL: 2 * time.Hour, Address: &record.Address{Channel: 1, Timestamp: t0.Add(-time.Hour).UnixNano()}}})
	r := b.log.NewReader()
	defer r.Release()
	m, ok := b.p.mover.copyOf(r, &moving{c: c}, t0.Add(10*time.Minute))
	if !ok || m.TTL != 50*time.Minute || m.Address.Timestamp != t0.Add(-time.Hour).UnixNano() {
		t.Errorf("%v, %+v, want 50 minutes to live", ok, m)
	}
}

// TestMessageForAnotherChannelIsNotAppendedAgain: its copy would be for that channel, and would not finish the
// original in this one, of which further copies would follow.
func TestMessageForAnotherChannelIsNotAppendedAgain(t *testing.T) {
	b := movingBench(t, MovePolicy{RequeueInMemory: time.Minute})
	c := b.channel("c", 1)
	c.Configure(ChannelOptions{Former: []uint64{5, 9}})
	b.publishAll([]Message{{Body: []byte("a"), Address: &record.Address{Channel: 9, Partition: 3}}})
	r := b.join(c)
	want(t, "first", r.take(1, t0), "a")
	c.Configure(ChannelOptions{Former: []uint64{5, 8}})
	if err := r.Requeue(r.got["a"], t0, time.Hour); err != nil {
		t.Fatal(err)
	}
	b.moved()
	if end := b.log.End(); end != 1 {
		t.Errorf("the log ends at %d", end)
	}
}

// While the attempts of a requeued message are on their way to the other replicas, it is deferred for FinTimeout. Its
// copy waits for the delay that the consumer asked for.
func TestCopyOfParkedMessageHasItsOwnDelay(t *testing.T) {
	s := newSet(t)
	s.p.o.Moves = MovePolicy{RequeueInMemory: time.Second}
	c := s.channel("c", 1, false)
	RetriesOf(c).SetPolicy(policy.Policy{MaxAttempts: 9}, nil)
	r := s.bench().join(c)
	s.publish("a")
	s.line.deliverAll()
	want(t, "first", r.take(9, t0), "a")
	if err := r.Requeue(r.got["a"], t0, 1500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	s.bench().moved()
	if m, ok := c.nextDue(); !ok || m.Sub(t0) != 1500*time.Millisecond {
		t.Errorf("it is due after %v, %v", m.Sub(t0), ok)
	}
}

// nextDue returns when the channel's state changes next.
func (c *Channel) nextDue() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.NextEvent()
}

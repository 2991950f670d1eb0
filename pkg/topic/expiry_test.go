package topic

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/policy"
)

func TestExpiredMessagesAreNotDelivered(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	r := b.join(c)
	b.p.Configure(Settings{TTL: 10 * time.Minute})
	b.publishAll([]Message{
		{Body: []byte("short"), TTL: time.Minute},
		{Body: []byte("usual")},
		{Body: []byte("long"), TTL: time.Hour},
		{Body: []byte("late"), TTL: time.Minute, Delay: time.Hour},
	})
	b.now = t0.Add(time.Minute - 1)
	want(t, "before the first expires", r.take(1, b.now), "short")
	if err := r.Requeue(r.got["short"], b.now, 0); err != nil {
		t.Fatal(err)
	}
	b.now = t0.Add(time.Minute)
	want(t, "when it has", r.take(1, b.now), "usual")
	if err := r.Requeue(r.got["usual"], b.now, 0); err != nil {
		t.Fatal(err)
	}
	b.now = t0.Add(10 * time.Minute)
	want(t, "when all but one have", r.take(9, b.now), "long")
	r.finish("long")
	b.now = t0.Add(2 * time.Hour)
	c.Tick(b.now)
	want(t, "when the delayed one is due", r.take(9, b.now), "")
	if s := c.Stats(); s.ExpiredTotal != 3 || s.Depth != 0 || s.Floor != 4 {
		t.Errorf("%+v", s)
	}
	b.restart()
	r = b.join(b.channel("c", 1))
	b.publish("after it")
	want(t, "where the topic's time is not known", r.take(9, b.now.Add(time.Hour)), "after it")
}

func TestExpiredMessagesDoNotBlockOrderedChannel(t *testing.T) {
	b := newBench(t)
	c, err := b.p.AddChannel("c", 1, ChannelOptions{Order: policy.Strict})
	if err != nil {
		t.Fatal(err)
	}
	r := b.join(c)
	b.publishAll([]Message{{Body: []byte("a"), TTL: time.Minute}, {Body: []byte("b")}, {Body: []byte("c"), TTL: time.Minute}})
	b.now = t0.Add(time.Hour)
	want(t, "the first that has not expired", r.take(9, b.now), "b")
	r.finish("b")
	want(t, "the others", r.take(9, b.now), "")
	if s := c.Stats(); s.ExpiredTotal != 2 || s.Floor != 3 {
		t.Errorf("%+v", s)
	}
}

// If expired messages become dead letters, a disposer takes them: none is delivered, and only
// deliveries count as attempts.
func TestDisposerTakesExpiredMessages(t *testing.T) {
	for _, order := range []policy.Order{policy.Unordered, policy.Strict, policy.ByKey} {
		b := newBench(t)
		poked := 0
		b.p.o.Exhausted = func(*Channel) { poked++ }
		c, err := b.p.AddChannel("c", 1, ChannelOptions{Order: order})
		if err != nil {
			t.Fatal(err)
		}
		RetriesOf(c).SetPolicy(policy.Policy{MaxAttempts: 3, OnExhausted: policy.Block, OnExpired: policy.DeadLetter}, nil)
		r := b.join(c)
		b.publishAll([]Message{
			{Body: []byte("a"), Key: []byte("k"), TTL: time.Minute}, {Body: []byte("b"), Key: []byte("k")}, {Body: []byte("c"), TTL: time.Minute},
		})
		want(t, "before it expires", r.take(1, b.now), "a")
		r.requeue(b.now, 0, "a")
		b.now = t0.Add(time.Hour)
		if order == policy.Unordered {
			want(t, "the one that lives on", r.take(9, b.now), "b")
		} else {
			want(t, "behind what has expired", r.take(9, b.now), "")
		}
		if s := c.Stats(); s.Exhausted != 0 || s.Expired == 0 || s.ExpiredTotal == 0 || s.Blocked != nil {
			t.Errorf("%v: %+v", order, s)
		}
		if again := c.Tick(b.now); !again || poked != 1 {
			t.Fatalf("%v: ticks on %v, told %d times", order, again, poked)
		}
		d := RetriesOf(c).NewDisposer()
		var got []string
		for range 4 {
			for _, e := range disposable(t, d, b.now) {
				if !e.Expired() {
					t.Errorf("%v: %+v", order, e)
				}
				if len(got) == 0 { // it is kept once
					d.Keep(&e)
					got = append(got, "kept")
					continue
				}
				got = append(got, fmt.Sprintf("%s#%d", e.Body, e.Attempts))
				if err := d.Finish(&e, true); err != nil {
					t.Fatal(err)
				}
			}
			r.take(9, b.now)
			if _, ok := r.got["b"]; ok {
				r.finish("b")
				delete(r.got, "b")
			}
		}
		slices.Sort(got)
		if s := c.Stats(); fmt.Sprint(got) != "[a#1 c#0 kept]" || s.Depth != 0 || s.Floor != 3 || s.ExpiredTotal != 2 || c.Failed.DeadLettered() != 2 {
			t.Errorf("%v: %v, %+v", order, got, s)
		}
		d.Close()
	}
}

// disposable returns the messages that a disposer takes.
func disposable(t *testing.T, d *Disposer, now time.Time) (list []Exhausted) {
	t.Helper()
	_, err := d.Take(now, 9, func(e *Exhausted) error {
		kept := *e
		kept.Body = slices.Clone(e.Body)
		list = append(list, kept)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestExpiredMessagesUseUpNoRate: a backlog that has expired does not delay what follows it.
func TestExpiredMessagesUseUpNoRate(t *testing.T) {
	for _, outcome := range []policy.Outcome{policy.Drop, policy.DeadLetter} {
		b := newBench(t)
		b.p.o.Exhausted = func(*Channel) {}
		c := b.channel("c", 1)
		var rates policy.Rates
		rates.Share(1, 1, b.now)
		RetriesOf(c).SetPolicy(policy.Policy{OnExpired: outcome}, rates.Of("c", 0, 10, b.now))
		r := b.join(c)
		for range 20 {
			b.publishAll([]Message{{Body: []byte("old"), TTL: time.Minute}})
		}
		b.publish("new")
		b.now = b.now.Add(time.Hour)
		want(t, string(outcome), r.take(9, b.now), "new")
	}
}

// TestMovedMessageLivesAsLongAsItsOrigin: a copy that replaces its origin has the rest of the time to
// live, however often it is moved.
func TestMovedMessageLivesAsLongAsItsOrigin(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"its own": time.Hour, "the topic's": 0} {
		b := movingBench(t, MovePolicy{RequeueInMemory: time.Minute})
		b.p.Configure(Settings{TTL: time.Hour})
		c := b.channel("c", 1)
		r := b.join(c)
		b.publishAll([]Message{{Body: []byte("a"), TTL: ttl}})
		for range 3 {
			c.Tick(b.now)
			want(t, name, r.take(1, b.now), "a")
			b.now = b.now.Add(10 * time.Minute)
			r.requeue(b.now, 9*time.Minute, "a")
			b.moved()
			b.now = b.now.Add(9 * time.Minute)
		}
		if end := b.log.End(); end != 4 {
			t.Fatalf("%s: the log ends at %d: not moved three times", name, end)
		}
		b.now = t0.Add(time.Hour - 1)
		c.Tick(b.now)
		want(t, name+", until it expires", r.take(1, b.now), "a")
		r.requeue(b.now, 0, "a")
		b.now = t0.Add(time.Hour)
		want(t, name+", expired", r.take(1, b.now), "")
	}
}

// A moved message without a time to live began a new life when its topic got one: the topic's time
// counted from the last move.
func TestMovedMessageIsAsOldAsItsOrigin(t *testing.T) {
	for name, again := range map[string]bool{"delivered": false, "moved again": true} {
		b := movingBench(t, MovePolicy{RequeueInMemory: time.Minute})
		c := b.channel("c", 1)
		r := b.join(c)
		b.publishAll([]Message{{Body: []byte("a")}})
		move := func() {
			c.Tick(b.now)
			want(t, name, r.take(1, b.now), "a")
			b.now = b.now.Add(10 * time.Minute)
			r.requeue(b.now, 9*time.Minute, "a")
			b.moved()
			b.now = b.now.Add(9 * time.Minute)
		}
		move()
		b.p.Configure(Settings{TTL: time.Hour})
		if again {
			move()
		}
		b.now = t0.Add(time.Hour - 1)
		c.Tick(b.now)
		want(t, name+", until it expires", r.take(1, b.now), "a")
		r.requeue(b.now, 0, "a")
		b.now = t0.Add(time.Hour)
		want(t, name+", expired", r.take(1, b.now), "")
	}
}

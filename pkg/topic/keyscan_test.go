package topic

import (
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// keyedOf returns messages whose keys are the letters that their bodies begin with; "-": none.
func keyedOf(bodies ...string) (all []Message) {
	for _, body := range bodies {
		m := Message{Body: []byte(body)}
		if body[0] != '-' {
			m.Key = []byte(body[:1])
		}
		all = append(all, m)
	}
	return all
}

func (s *set) publishKeyed(bodies ...string) {
	s.t.Helper()
	s.p.Publish(keyedOf(bodies...), func(r Receipt) {
		if r.Err != nil {
			s.t.Errorf("receipt %+v", r)
		}
	})
}

func (s *set) keyedChannel(name string, version uint64) *Channel {
	s.t.Helper()
	c, err := s.p.AddChannel(name, version, ChannelOptions{Order: policy.ByKey})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func keyedBench(t *testing.T, bodies ...string) (*bench, *Channel) {
	t.Helper()
	b := newBench(t)
	c, err := b.p.AddChannel("c", 1, ChannelOptions{Order: policy.ByKey})
	if err != nil {
		t.Fatal(err)
	}
	if len(bodies) > 0 {
		b.publishAll(keyedOf(bodies...))
	}
	return b, c
}

// TestNextOfAKeyWaitsForAllReplicas: every replica first knows that its predecessor is finished,
// and keys do not wait for each other. FINs that arrive meanwhile are sent together.
func TestNextOfAKeyWaitsForAllReplicas(t *testing.T) {
	s := newSet(t)
	c := s.keyedChannel("c", 1)
	r := s.bench().join(c)
	s.publishKeyed("a1", "a2", "b1", "-1", "b2", "-2", "a3")
	want(t, "before the others know where it begins", r.take(9, s.now), "")
	s.line.deliverAll()
	want(t, "the first of each", r.take(9, s.now), "a1 b1 -1 -2")
	before := len(s.line.parcels)
	r.finish("-1")
	if len(s.line.parcels) != before || r.Counts().Finished != 1 {
		t.Error("a message without a key waits for others")
	}
	r.finish("a1", "b1")
	s.line.deliver(1)
	want(t, "before everybody knows", r.take(9, s.now), "")
	woken := r.wakes
	s.line.deliverAll()
	if r.wakes == woken {
		t.Error("no consumer was woken when the finishes counted")
	}
	want(t, "then", r.take(9, s.now), "a2 b2")
	s.lead(1)
	s.line.deliverAll()
	r = s.bench().join(s.keyedChannel("c", 1))
	want(t, "the next leader, who has not heard of the one without a key", r.take(9, s.now), "a2 -1 b2 -2")
	if b := c.Stats().KeyBlock; b == nil || b.Waiting != 2 {
		t.Errorf("what waits for its key: %+v", b)
	}
}

func TestFinishesAreSharedTogether(t *testing.T) {
	s := newSet(t)
	r := s.bench().join(s.keyedChannel("c", 1))
	s.publishKeyed("a1", "b1", "c1", "d1", "a2", "b2", "c2", "d2")
	s.line.deliverAll()
	want(t, "first", r.take(9, s.now), "a1 b1 c1 d1")
	before := len(s.line.parcels)
	r.finish("a1", "b1", "c1", "d1")
	s.line.deliverAll()
	if told := len(s.line.parcels) - before; told != 2 {
		t.Errorf("four finishes were sent in %d parcels, want 2", told)
	}
	want(t, "second", r.take(9, s.now), "a2 b2 c2 d2")
	s.lead(2)
	s.line.deliverAll()
	want(t, "the next leader", s.bench().join(s.keyedChannel("c", 1)).take(9, s.now), "a2 b2 c2 d2")
}

// TestUnstoredFinishOfAKeyIsAbandoned: only its key waits.
func TestUnstoredFinishOfAKeyIsAbandoned(t *testing.T) {
	s := newSet(t)
	c := s.keyedChannel("c", 1)
	r := s.bench().join(c)
	s.publishKeyed("a1", "a2", "b1")
	s.line.deliverAll()
	want(t, "first", r.take(9, s.now), "a1 b1")
	r.finish("a1")
	s.now = s.now.Add(FinTimeout)
	c.Tick(s.now)
	want(t, "after the time is over", r.take(9, s.now), "a1")
	r.finish("a1")
	s.line.deliverAll()
	want(t, "once it is stored", r.take(9, s.now), "a2")
}

func TestDeferredMessageDelaysItsKey(t *testing.T) {
	b, c := keyedBench(t)
	first := keyedOf("a1")[0]
	first.Delay = time.Hour
	b.publishAll(append([]Message{first}, keyedOf("a2", "b1", "-1", "b2")...))
	r := b.join(c)
	want(t, "while it is deferred", r.take(9, t0), "b1 -1")
	r.finish("-1")
	if err := r.Requeue(r.got["b1"], t0, time.Minute); err != nil {
		t.Fatal(err)
	}
	want(t, "while another is requeued", r.take(9, t0), "")
	c.Tick(t0.Add(2 * time.Minute))
	want(t, "when it is due", r.take(9, t0.Add(2*time.Minute)), "b1")
	r.finish("b1")
	want(t, "then", r.take(9, t0.Add(2*time.Minute)), "b2")
	r.finish("b2")
	c.Tick(t0.Add(2 * time.Hour))
	want(t, "last", r.take(1, t0.Add(2*time.Hour)), "a1")
	if b := c.Stats().KeyBlock; b == nil || b.Key != "a" || b.Waiting != 2 {
		t.Errorf("blocked by %+v", b)
	}
}

// TestUnfinishedMessageReleasesItsKey: when it has expired, or used up
// its attempts.
func TestUnfinishedMessageReleasesItsKey(t *testing.T) {
	b, c := keyedBench(t)
	expiring := keyedOf("a1")[0]
	expiring.TTL = time.Minute
	b.publishAll(append([]Message{expiring}, keyedOf("a2", "b1", "b2")...))
	RetriesOf(c).SetPolicy(policy.Policy{MaxAttempts: 1, OnExhausted: policy.Drop}, nil)
	b.p.o.Exhausted = func(*Channel) {}
	now := t0.Add(time.Hour)
	r := b.join(c)
	want(t, "with one expired", r.take(9, now), "b1 a2")
	if err := r.Requeue(r.got["b1"], now, 0); err != nil {
		t.Fatal(err)
	}
	want(t, "with one that has had its attempts", r.take(9, now), "")
	d := RetriesOf(c).NewDisposer()
	if n, err := d.Take(now, 9, func(e *Exhausted) error { return d.Finish(e, false) }); n != 1 || err != nil {
		t.Fatalf("disposed of %d, %v", n, err)
	}
	want(t, "when that is gone", r.take(9, now), "b2")
}

// TestUnselectedMessageOfAKeyIsFinishedForAll: neither another leader nor another consumer delivers
// it after its successor.
func TestUnselectedMessageOfAKeyIsFinishedForAll(t *testing.T) {
	s := newSet(t)
	c := s.keyedChannel("c", 1)
	filter, err := header.ParseFilter([]byte(`{"type":1,"filter_ext_key":"x","filter_data":"1"}`))
	if err != nil {
		t.Fatal(err)
	}
	r := s.bench().join(c, func(o *ConsumerOptions) { o.Filter = filter })
	messages := keyedOf("a1", "a2")
	messages[1].Header = []byte(`{"x":"1"}`)
	s.p.Publish(messages, func(Receipt) {})
	s.line.deliverAll()
	want(t, "before everybody knows of the first", r.take(9, s.now), "")
	s.line.deliverAll()
	want(t, "then", r.take(9, s.now), "a2")
}

// A message that the channel's filter skips is finished on all replicas before a later message of
// its key is delivered: the next leader may have another filter.
func TestFilteredMessageOfAKeyIsFinishedForAll(t *testing.T) {
	s := newSet(t)
	c := s.keyedChannel("c", 1)
	c.Configure(ChannelOptions{Order: policy.ByKey, Filter: `size > 2`})
	r := s.bench().join(c)
	s.publishKeyed("a1", "a22")
	s.line.deliverAll()
	want(t, "before everybody knows of the first", r.take(9, s.now), "")
	s.line.deliverAll()
	want(t, "then", r.take(9, s.now), "a22")
}

// An expired message is finished on all replicas before a later message of its key is delivered: by the
// next leader's clock it may not have expired.
func TestExpiredMessageOfAKeyIsFinishedForAll(t *testing.T) {
	s := newSet(t)
	c := s.keyedChannel("c", 1)
	r := s.bench().join(c)
	messages := keyedOf("a1", "a2")
	messages[0].TTL = time.Millisecond
	s.p.Publish(messages, func(Receipt) {})
	s.line.deliverAll()
	later := s.now.Add(time.Second)
	want(t, "before everybody knows of the first", r.take(9, later), "")
	s.line.deliverAll()
	want(t, "then", r.take(9, later), "a2")
	if got := c.Stats(); got.ExpiredTotal != 1 {
		t.Errorf("%d expired", got.ExpiredTotal)
	}
}

func TestOperatorMovesAChannelThatOrdersByKey(t *testing.T) {
	b, c := keyedBench(t, "a1", "a2", "b1", "a3", "b2")
	r := b.join(c)
	want(t, "first", r.take(9, t0), "a1 b1")
	if err := c.Seek(1); err != nil {
		t.Fatal(err)
	}
	want(t, "after a seek", r.take(9, t0), "a2 b1")
	if err := c.Operator().Move(func(s *channel.State) { s.Operator().Skip(3, 4) }); err != nil {
		t.Fatal(err)
	}
	r.finish("a2", "b1")
	want(t, "after a skip", r.take(9, t0), "b2")
	if err := c.Seek(seq.MaxOffset); err != nil {
		t.Fatal(err)
	}
	b.publishAll(keyedOf("b3", "b4"))
	want(t, "when it was emptied", r.take(9, t0), "b3")
	for i, order := range []policy.Order{policy.Unordered, policy.ByKey, policy.Strict, policy.ByKey} {
		c.Configure(ChannelOptions{Order: order})
		if got := r.take(9, t0); (got == "b4") != (i == 0) {
			t.Errorf("with order %v: %q", order, got)
		}
	}
}

// TestLongRequeueOfAKeyStaysWhereItIs: a copy at the end of the log would come after its successors.
func TestLongRequeueOfAKeyStaysWhereItIs(t *testing.T) {
	b, c := keyedBench(t, "a1", "-1", "a2")
	b.p.o.Moves.RequeueInMemory = time.Minute
	r := b.join(c)
	want(t, "first", r.take(9, t0), "a1 -1")
	for i, body := range []string{"a1", "-1"} {
		if err := r.Requeue(r.got[body], t0, time.Hour); err != nil {
			t.Fatal(err)
		}
		b.moved()
		if end := b.log.End(); end != seq.Offset(3+i) {
			t.Errorf("with %s requeued the log ends at %d", body, end)
		}
	}
}

func TestKeysAreReadFarAhead(t *testing.T) {
	bodies := make([]string, 3*keyScanMax)
	for i := range bodies {
		bodies[i] = "a"
	}
	bodies[len(bodies)-1] = "b"
	b, c := keyedBench(t, bodies...)
	r := b.join(c)
	want(t, "the first of each key", r.take(9, t0), "a b")
	if got := r.got["b"]; got != seq.Offset(len(bodies)-1) {
		t.Errorf("offset %d", got)
	}
	if got := strings.Count(r.take(9, t0), "a"); got != 0 {
		t.Errorf("%d more", got)
	}
}

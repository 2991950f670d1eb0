package topic

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/policy"
)

func TestExpiredMessagesAreNotDelivered(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	r := b.join(c)
	SetTTL(b.p, 10*time.Minute)
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
	if s := c.Stats(); s.Expired != 3 || s.Depth != 0 || s.Floor != 4 {
		t.Errorf("%+v", s)
	}
	b.restart()
	r = b.join(b.channel("c", 1))
	b.publish("after it")
	want(t, "where the topic's time is not known", r.take(9, b.now.Add(time.Hour)), "after it")
}

func TestExpiredMessagesOfAnOrderedChannelDoNotHoldUpOthers(t *testing.T) {
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
	if s := c.Stats(); s.Expired != 2 || s.Floor != 3 {
		t.Errorf("%+v", s)
	}
}

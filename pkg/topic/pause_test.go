package topic

import (
	"testing"
	"time"
)

// TestDelayedMessageOfPausedTopicDelaysNoOther: it becomes due before it is visible, and a message that
// a consumer requeues then is delivered all the same.
func TestDelayedMessageOfPausedTopicDelaysNoOther(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	r := b.join(c)
	b.publish("before")
	want(t, "before the pause", r.take(9, b.now), "before")
	b.p.Configure(Settings{Paused: true})
	b.publishAll([]Message{{Body: []byte("delayed"), Delay: time.Second}})
	b.now = b.now.Add(2 * time.Second)
	c.Tick(b.now)
	if err := r.Requeue(r.got["before"], b.now, 0); err != nil {
		t.Fatal(err)
	}
	want(t, "requeued", r.take(9, b.now), "before")
	b.p.Configure(Settings{Paused: false})
	want(t, "resumed", r.take(9, b.now), "delayed")
}

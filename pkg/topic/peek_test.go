package topic

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
)

func TestOldestMessageOfAChannel(t *testing.T) {
	b := newBench(t)
	b.channel("c", 1)
	began := b.now
	b.publish("first", "second")
	b.now = b.now.Add(time.Minute)
	b.publish("third")
	b.restart() // the messages are on disk
	c := b.channel("c", 1)
	r := b.join(c)
	oldest := func(want time.Time) {
		t.Helper()
		if at, ok := b.p.OldestAt(c); !ok || !at.Equal(want) {
			t.Errorf("published at %v, %v; want %v", at, ok, want)
		}
	}
	oldest(began)
	r.take(3, b.now)
	b.spoil("second")
	oldest(began) // known
	finish := func(body string) {
		t.Helper()
		if err := r.Finish(r.got[body]); err != nil {
			t.Fatal(err)
		}
	}
	finish("first")
	oldest(began) // the second came with it
	finish("second")
	oldest(began.Add(time.Minute))
	finish("third")
	if at, ok := b.p.OldestAt(c); ok {
		t.Errorf("published at %v though nothing waits", at)
	}
	c.change(func(s *channel.State) { s.Operator().Seek(0) })
	if at, ok := b.p.OldestAt(c); ok {
		t.Errorf("published at %v, from a batch that is damaged", at)
	}
}

// TestPeekReadsNoFinishedMessages: a channel may have finished millions behind a deferred one, and the
// log may be damaged there.
func TestPeekReadsNoFinishedMessages(t *testing.T) {
	b := newBench(t)
	b.channel("c", 1)
	b.publish("first")
	b.publish("second")
	b.publish("third")
	b.publish("fourth")
	b.restart() // the messages are on disk
	c := b.channel("c", 1)
	r := b.join(c)
	want(t, "taken", r.take(4, b.now), "first second third fourth")
	r.finish("second")
	r.finish("fourth")
	b.spoil("second")
	b.spoil("fourth")
	seen, err := b.p.Peek(c, 0, 9, 1<<20)
	if err != nil || len(seen) != 2 || string(seen[0].Message.Body) != "first" || string(seen[1].Message.Body) != "third" {
		t.Errorf("%d messages: %+v, %v", len(seen), seen, err)
	}
	if _, err := b.p.Peek(nil, 0, 9, 1<<20); err == nil {
		t.Error("without a channel no damage is reported")
	}
}

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
	c.change(func(s *channel.State) { s.Seek(0) })
	if at, ok := b.p.OldestAt(c); ok {
		t.Errorf("published at %v, from a batch that is damaged", at)
	}
}

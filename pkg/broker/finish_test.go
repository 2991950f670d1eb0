package broker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// TestAnOrderedFinishBelowTheMinimumFails: the other replicas die, so too few are in
// sync to store a FIN. Its client is told within seconds, and gets the message again;
// nothing behind it is delivered.
func TestAnOrderedFinishBelowTheMinimumFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		if err := l.at("n1").CreateChannel(t.Context(), "t", "c", true); err != nil {
			t.Fatal(err)
		}
		l.mustPut("t", 0, "a", "b")
		c := (&node{Broker: l.leader("t", 0), t: t}).subscribe("t", "c", func(s *Subscribe) { s.Ordered = true })
		l.kill("n2")
		l.kill("n3")
		l.inSync("t", 0, 1)
		if got := c.take(1); got != "a" { // and finishes it
			t.Fatalf("got %q", got)
		}
		id := seq.NewMessageID(0, 0)
		time.Sleep(topic.FinTimeout + time.Second)
		c.mu.Lock()
		err := c.unfinished[id]
		c.mu.Unlock()
		if !errors.Is(err, topic.ErrFinNotStored) {
			t.Errorf("the client is told %v", err)
		}
		if got := c.take(1); got != "a" {
			t.Errorf("after that it gets %q, want the message again", got)
		}
	})
}

package broker

import (
	"errors"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/topic"
)

// A replica knows a newer leader than this node's metadata, which may be behind
// for any length of time: the newer leader already delivers.
func TestLeaderThatLearnsOfLaterEpochDeliversNothing(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	c := l.subscribe("t", "c", 0)
	l.mustPut("t", 0, "a", "b")
	if got := c.take(1); got != "a" {
		t.Fatalf("got %q", got)
	}
	n3 := l.at("n3").Host.Lookup("t").Held(0)
	lp := l.at("n1").Host.Lookup("t").Led(0)
	if err := n3.Replica.Follow(coord.View{Epoch: lp.Term.Epoch() + 1, Leader: "n2"}, n3.Standby.Load()); err != nil {
		t.Fatal(err)
	}
	if err := l.put("t", 0, "c"); !errors.Is(err, failure.Unconfirmed) {
		t.Fatalf("publish: %v", err)
	}
	l.eventually("the lease to end", func() bool { return !lp.Part.Gate.Leased(time.Now()) })
	n, err := c.Take(time.Now(), 1, func(*topic.Delivery) error { return nil })
	if n > 0 || err != nil {
		t.Errorf("a superseded leader delivers %d: %v", n, err)
	}
}

package topic

import (
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/policy"
)

// TestLongRequeueStaysWhereItIsInAnOrderedChannel: also if the channel's backoff defers the message.
func TestLongRequeueStaysWhereItIsInAnOrderedChannel(t *testing.T) {
	b := movingBench(t, MovePolicy{RequeueInMemory: time.Minute})
	c, err := b.p.AddChannel("c", 1, ChannelOptions{Order: policy.Strict})
	if err != nil {
		t.Fatal(err)
	}
	RetriesOf(c).SetPolicy(policy.Policy{Backoff: policy.Backoff{Min: time.Second, Max: time.Minute}}, nil)
	b.publish("a", "b")
	r := b.join(c)
	want(t, "first", r.take(9, t0), "a")
	if err := r.Requeue(0, t0, time.Hour); err != nil {
		t.Fatal(err)
	}
	b.moved()
	want(t, "while it is deferred", r.take(9, t0), "")
	if end := b.log.End(); end != 2 {
		t.Errorf("the log ends at %d", end)
	}
}

// TestPendingMoveIsCancelledWhenOrderBegins: the channel becomes ordered before the mover
// reaches the message.
func TestPendingMoveIsCancelledWhenOrderBegins(t *testing.T) {
	for _, order := range []policy.Order{policy.Unordered, policy.ByKey, policy.Strict} {
		b := newBench(t)
		c := b.channel("c", 1)
		b.publishAll(keyedOf("a1", "a2"))
		r := b.join(c)
		want(t, "first", r.take(1, t0), "a1")
		if err := r.Requeue(0, t0, time.Hour); err != nil {
			t.Fatal(err)
		}
		c.Configure(ChannelOptions{Order: order})
		_, moves := b.p.mover.copyOf(b.log.NewReader(), &moving{c, 0, t0.Add(time.Hour)}, t0)
		if moves != (order == policy.Unordered) {
			t.Errorf("with order %q a message is moved: %v", order, moves)
		}
		if at, _ := stateOf(c, 0); at != channel.Deferred {
			t.Errorf("with order %q it is %v", order, at)
		}
	}
}

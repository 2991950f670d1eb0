package broker

import (
	"testing"
	"time"
)

// A topic that somebody else is making is known a moment before it is led. An ephemeral
// channel is then made where the subscription joins it.
func TestAnEphemeralChannelIsMadeOnceTheTopicIsLed(t *testing.T) {
	n := newNode(t)
	n.put("t", "before")
	h := n.lookup("t")
	led := h.leading.Swap(&[]*ledPartition{})
	c := &consumer{t: t, woken: make(chan struct{}, 1)}
	s, err := n.newSubscription(t.Context(), Subscribe{
		Topic: "t", Channel: "c#ephemeral", Partition: AnyPartition, Client: c, MsgTimeout: time.Minute, Wake: c.wake,
	})
	h.leading.Store(led)
	if err != nil {
		t.Fatal(err)
	}
	c.Subscription = s
	if err := s.joiner().begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	c.SetReady(1)
	if got := c.takeSome(1); string(got[0].Body) != "before" {
		t.Errorf("got %+v", got)
	}
}

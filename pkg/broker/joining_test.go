package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/host"
)

// The last consumer of an ephemeral channel deletes it. One that comes at that moment gets the
// channel, or a new one.
func TestEphemeralChannelIsJoinedWhileItsLastConsumerLeaves(t *testing.T) {
	n := newNode(t)
	const rounds = 2000
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range rounds {
				c := &consumer{t: t, woken: make(chan struct{}, 1)}
				s, err := n.Consumers.Subscribe(t.Context(), consume.Subscribe{
					Topic: "t", Channel: "c#ephemeral", Partition: host.AnyPartition, Client: c, MsgTimeout: time.Minute, Wake: c.wake,
				})
				if err != nil {
					t.Errorf("subscribe: %v", err)
					return
				}
				s.Close()
			}
		})
	}
	clients.Wait()
}

// The last channel of an ephemeral topic takes the topic with it. A consumer that comes at that moment gets the topic,
// or a new one, and is served: one that joined a partition which was closed waited for ever.
func TestEphemeralTopicIsSubscribedToWhileItIsDeleted(t *testing.T) {
	n := newNode(t)
	const rounds = 100
	var clients sync.WaitGroup
	for i := range 3 {
		clients.Go(func() {
			for k := range rounds {
				c := &consumer{t: t, woken: make(chan struct{}, 1)}
				s, err := n.Consumers.Subscribe(t.Context(), consume.Subscribe{
					Topic: "t#ephemeral", Channel: fmt.Sprintf("c%d#ephemeral", i), Partition: host.AnyPartition, Client: c, MsgTimeout: time.Minute, Wake: c.wake,
				})
				if err != nil {
					t.Errorf("client %d, round %d: subscribe: %v", i, k, err)
					return
				}
				h := n.Host.Lookup("t#ephemeral")
				if h == nil || !host.Serves(h, fmt.Sprintf("c%d#ephemeral", i)) {
					t.Errorf("client %d, round %d: it is subscribed, and its channel is not there", i, k)
				}
				s.Close()
			}
		})
	}
	clients.Wait()
}

// A subscription is repeated while a partition has no leader. It joins the others once: answers
// would otherwise reach only the first of its consumers.
func TestSubscriptionOutlastsLostLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1")
		m.create("t", "n1", "n1")
		n := m.nodes["n1"]
		n.subscribe("t", "c").Close()
		led := n.Host.Lookup("t").AllLed()
		if err := led[1].Part.Close(host.ErrLedElsewhere); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began, joined := time.Now(), make(chan error, 1)
		go func() {
			c := &consumer{t: t, woken: make(chan struct{}, 1)}
			_, err := n.Consumers.Subscribe(ctx, consume.Subscribe{
				Topic: "t", Channel: "c", Partition: host.AnyPartition, Client: c, MsgTimeout: time.Minute, Wake: c.wake,
			})
			joined <- err
		}()
		time.Sleep(time.Second / 2)
		if got := len(led[0].Part.Channel("c").Consumers()); got != 1 {
			t.Errorf("%d consumers of the other partition", got)
		}
		if err := <-joined; !errors.Is(err, failure.NotLeading) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// Clients may use each name of an ephemeral channel once, such as one with a random number.
func TestRateOfEphemeralChannelEndsWithIt(t *testing.T) {
	n := newNode(t)
	c := n.subscribe("t", "c#ephemeral")
	rates, now := &n.Host.Lookup("t").Rates, time.Now()
	was := rates.Of("c#ephemeral", 0, 5, now)
	if rates.Of("c#ephemeral", 0, 5, now) != was {
		t.Error("another limit while the channel exists")
	}
	c.Close()
	if rates.Of("c#ephemeral", 0, 5, now) == was {
		t.Error("the limit stays after the last consumer has left")
	}
}

// A channel that is created again under the name of a deleted one begins with a limit of its own.
func TestRateOfDeletedChannelEndsWithIt(t *testing.T) {
	n := newNode(t)
	n.subscribe("t", "c").Close()
	rates, now := &n.Host.Lookup("t").Rates, time.Now()
	was := rates.Of("c", 0, 5, now)
	if err := n.Contents.DeleteChannel(t.Context(), "t", "c"); err != nil {
		t.Fatal(err)
	}
	if rates.Of("c", 0, 5, now) == was {
		t.Error("the limit stays after the channel is deleted")
	}
}

package broker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/host"
)

// A topic that another client is creating is known a moment before it has a leader.
// The subscription then creates the ephemeral channel when it joins.
func TestEphemeralChannelIsCreatedOnceTopicIsLed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1")
		m.create("t", "n1")
		n := m.nodes["n1"]
		n.put("t", "before")
		resume := n.Host.Lookup("t").Suspend()
		c := &consumer{t: t, woken: make(chan struct{}, 1)}
		joined := make(chan error, 1)
		go func() {
			s, err := n.Consumers.Subscribe(t.Context(), consume.Subscribe{
				Topic: "t", Channel: "c#ephemeral", Partition: host.AnyPartition, Client: c, MsgTimeout: time.Minute, Wake: c.wake,
			})
			c.Subscription = s
			joined <- err
		}()
		synctest.Wait()
		resume()
		if err := <-joined; err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		c.SetReady(1)
		if got := c.takeSome(1); string(got[0].Body) != "before" {
			t.Errorf("got %+v", got)
		}
	})
}

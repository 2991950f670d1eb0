package broker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/topic"
)

// newRelayed returns two nodes, and a consumer at the one of messages that the other leads.
func newRelayed(t *testing.T, timeout time.Duration, bodies ...string) (*mesh, *consumer) {
	t.Helper()
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	c := m.nodes["n1"].subscribe("t", "c", func(s *consume.Subscribe) { s.MsgTimeout = timeout })
	for _, b := range bodies {
		m.nodes["n2"].put("t", b)
	}
	return m, c
}

func TestAnswersReachTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newRelayed(t, 400*time.Millisecond, "a", "b")
		got := c.takeSome(2)
		if c.Sources.Load().InFlight() != 2 {
			t.Errorf("%d in flight", c.Sources.Load().InFlight())
		}
		if err := errors.Join(c.Finish(got[0].ID), c.Requeue(got[1].ID, 50*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(got[0].ID); !errors.Is(err, failure.NotInFlight) {
			t.Errorf("finished twice: %v", err)
		}
		if c.Sources.Load().InFlight() != 0 {
			t.Errorf("%d in flight", c.Sources.Load().InFlight())
		}
		again := c.takeSome(1)[0]
		if string(again.Body) != "b" || again.Attempts != 2 {
			t.Errorf("got %+v", again)
		}
		for range 10 { // longer than the timeout in total
			tick := time.NewTimer(100 * time.Millisecond)
			<-tick.C
			if err := c.Touch(again.ID); err != nil {
				t.Fatal(err)
			}
		}
		late := c.takeSome2(t, again)
		if err := c.Finish(late.ID); err != nil {
			t.Error(err)
		}
		eventually(t, func() bool { return m.nodes["n2"].finished("t", "c") == 2 })
		if s := m.nodes["n2"].channelStats("t", "c"); s.RequeuedTotal != 1 || s.TimedOutTotal != 1 || s.InFlight != 0 || len(s.Clients) != 1 || s.Clients[0].ClientID != "test" {
			t.Errorf("got %+v", s)
		}
	})
}

// takeSome2 waits for a message to time out and be redelivered.
func (c *consumer) takeSome2(t *testing.T, first topic.Delivery) topic.Delivery {
	t.Helper()
	c.SetReady(1) // it has to make room itself
	d := c.takeSome(1)[0]
	if d.ID != first.ID || d.Attempts != first.Attempts+1 {
		t.Errorf("got %+v", d)
	}
	return d
}

// TestClientIsNotifiedOfRefusedFinish makes messages time out only
// at the leader, as if the other node had been paused.
func TestClientIsNotifiedOfRefusedFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newRelayed(t, time.Minute, "a", "b")
		got := c.takeSome(2)
		for _, sub := range m.nodes["n2"].subscriptions("t", "c") {
			if err := sub.Requeue(got[0].ID, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(c.Finish(got[0].ID), c.Finish(got[1].ID)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := c.told(got[0].ID); !errors.Is(err, failure.NotInFlight) || err.Error() != failure.NotInFlight.Error() {
			t.Errorf("told %v", err)
		}
		if err := c.told(got[1].ID); err != nil {
			t.Errorf("got an error of one that was finished: %v", err)
		}
	})
}

// TestClientIsNotifiedOfUnsentFinish makes the leader end the
// subscription while answers are in transit, and after them.
func TestClientIsNotifiedOfUnsentFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newRelayed(t, time.Minute, "a", "b")
		got := c.takeSome(2)
		m.link("n1", "n2").hold(true)
		if err := errors.Join(c.Finish(got[0].ID), c.Finish(got[1].ID)); err != nil {
			t.Fatal(err)
		}
		for _, lp := range m.nodes["n2"].Host.Lookup("t").AllLed() {
			lp.Part.Gate.Disconnect(host.ErrLedElsewhere)
		}
		synctest.Wait()
		m.link("n1", "n2").hold(false)
		time.Sleep(time.Second) // the client subscribes again: the message might be in flight there
		for _, d := range got {
			if c.told(d.ID) == nil {
				t.Errorf("no error of %s", d.Body)
			}
		}
	})
}

// A message times out at the leader, and the leader sends it to the same relay again, while its Finish
// is in transit. The leader accepts the Finish and continues, perhaps with another consumer: the relay
// would deliver its copy after the later messages.
func TestRelayDropsADeliveryThatItsClientHasFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1", "n2")
		m.create("t", "n2")
		if _, err := m.meta.Propose(t.Context(), meta.CreateChannel{Topic: "t", Channel: "c", Order: policy.Strict}); err != nil {
			t.Fatal(err)
		}
		m.converge("t")
		c := m.nodes["n1"].subscribe("t", "c", func(s *consume.Subscribe) { s.MsgTimeout = time.Second })
		m.nodes["n2"].put("t", "a")
		m.nodes["n2"].put("t", "b")
		a := c.takeSome(1)[0]
		time.Sleep(999 * time.Millisecond)
		m.link("n1", "n2").hold(true)
		if err := c.Finish(a.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond) // the leader delivers it again
		m.link("n1", "n2").hold(false)
		synctest.Wait()
		if got := c.takeSome(1)[0]; string(got.Body) != "b" {
			t.Errorf("got %s again", got.Body)
		}
		if why := c.told(a.ID); why != nil {
			t.Errorf("the error of a: %v", why)
		}
	})
}

// A Finish that comes too late is refused, and does not affect later deliveries.
func TestRelayDeliversAgainAfterARefusedFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newRelayed(t, time.Second, "a")
		a := c.takeSome(1)[0]
		m.link("n1", "n2").hold(true)
		c.SetReady(0)
		if err := c.Finish(a.ID); err != nil {
			t.Fatal(err)
		}
		d := m.nodes["n2"].subscribe("t", "c")
		time.Sleep(2 * time.Second)
		a = d.takeSome(1)[0]
		m.link("n1", "n2").hold(false)
		synctest.Wait()
		if c.told(a.ID) == nil {
			t.Error("the client got no error of its Finish")
		}
		c.SetReady(1)
		synctest.Wait()
		d.SetReady(0)
		if err := d.Requeue(a.ID, 0); err != nil {
			t.Fatal(err)
		}
		if got := c.takeSome(1)[0]; got.ID != a.ID {
			t.Errorf("got %s", got.Body)
		}
	})
}

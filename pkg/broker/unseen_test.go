package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/relay"
)

// TestUnseenDeliveryDoesNotCount has a client of a node that does not
// lead stop taking messages, or leave, while messages wait for it there or are in
// transit.
func TestUnseenDeliveryDoesNotCount(t *testing.T) {
	const seen = 3
	for _, c := range []struct {
		name       string
		early, all int // messages published before stop, and with the later ones
		stop       func(m *mesh, c *consumer)
		again      uint16 // attempts seen by consumers that get what the client had seen
	}{
		{"RDY 0", 20, 20, func(_ *mesh, c *consumer) { c.SetReady(0) }, 1},
		{"CLS", 20, 20, func(_ *mesh, c *consumer) { c.StopDelivery() }, 1},
		{"close", 20, 20, func(_ *mesh, c *consumer) { c.Close() }, 2},
		{"RDY 0 and close", 20, 20, func(_ *mesh, c *consumer) { c.SetReady(0); c.Close() }, 2},
		{"close with some on their way", seen, 20, func(m *mesh, c *consumer) {
			m.link("n1", "n2").hold(true)
			c.Close()
		}, 2},
		{"RDY 0 with one on its way", seen, seen + 1, func(m *mesh, c *consumer) {
			m.link("n1", "n2").hold(true)
			c.SetReady(0)
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMesh(t, "n1", "n2")
				m.create("t", "n2")
				far := m.nodes["n1"].subscribe("t", "c")
				put := func(from, to int) {
					for i := from; i < to; i++ {
						m.nodes["n2"].put("t", fmt.Sprintf("%02d", i))
					}
				}
				put(0, c.early)
				had := far.takeSome(seen)
				synctest.Wait() // the rest has arrived
				c.stop(m, far)
				put(c.early, c.all)
				synctest.Wait()
				m.link("n1", "n2").hold(false)
				synctest.Wait()
				near := m.nodes["n2"].subscribe("t", "c")
				want, attempts := c.all-seen, map[string]uint16{}
				if c.again == 2 {
					want = c.all
					for _, d := range had {
						attempts[string(d.Body)] = 2
					}
				}
				began := time.Now()
				got, order := near.takeSome(want), -1
				if waited := time.Since(began); waited > 0 {
					t.Errorf("the messages came back after %v", waited)
				}
				for _, d := range got {
					was := max(attempts[string(d.Body)], 1)
					if d.Attempts != was {
						t.Errorf("%s has %d attempts, want %d", d.Body, d.Attempts, was)
					}
					if was == 1 {
						var n int
						if _, err := fmt.Sscanf(string(d.Body), "%d", &n); err != nil || n <= order {
							t.Errorf("%s (%v) comes behind %d", d.Body, err, order)
						}
						order = n
					}
				}
				near.idleNow()
				s := m.nodes["n2"].channelStats("t", "c")
				if s.InFlight != int64(c.all) || s.RequeuedTotal != 0 || s.TimedOutTotal != 0 || s.Depth != 0 {
					t.Errorf("got %+v", s)
				}
			})
		})
	}
}

// idleNow checks that one more look finds no message.
func (c *consumer) idleNow() {
	c.t.Helper()
	synctest.Wait()
	if n := c.takeAll(); n > 0 {
		c.t.Errorf("took %d more", n)
	}
}

// TestSeenDeliveryCounts has answers that never reach the
// leader, and one in transit before the leader learns that the client has left.
func TestSeenDeliveryCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1", "n2")
		m.create("t", "n2")
		far := m.nodes["n1"].subscribe("t", "c")
		m.nodes["n2"].put("t", "a", "b")
		got := far.takeSome(2)
		m.link("n1", "n2").hold(true)
		for _, d := range got {
			if err := far.Requeue(d.ID, 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range far.Sources.Load().Relays {
			r.End(relay.ErrPaused)
		}
		far.Close()
		synctest.Wait()
		m.link("n1", "n2").hold(false)
		time.Sleep(time.Second)
		near := m.nodes["n2"].subscribe("t", "c")
		for _, d := range near.takeSome(2) {
			if d.Attempts != 2 {
				t.Errorf("%s has %d attempts", d.Body, d.Attempts)
			}
		}
	})
}

package broker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// TestUnusedCreditServesAnotherLeader has a client hold messages of one
// leader while the others have none: the client must get as many as it has room
// for.
func TestUnusedCreditServesAnotherLeader(t *testing.T) {
	for name, c := range map[string]struct {
		leaders []meta.NodeID
		ready   int
	}{
		"two relays":                  {[]meta.NodeID{"n2", "n3"}, 10},
		"three relays":                {[]meta.NodeID{"n2", "n3", "n4"}, 25},
		"fewer than relays":           {[]meta.NodeID{"n2", "n3", "n4"}, 2},
		"a partition here, a relay":   {[]meta.NodeID{"n1", "n3"}, 10},
		"a partition here, two of it": {[]meta.NodeID{"n1", "n2", "n3"}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMesh(t, "n1", "n2", "n3", "n4")
				m.create("t", c.leaders...)
				k := m.nodes["n1"].subscribe("t", "c")
				k.SetReady(c.ready)
				last := len(c.leaders) - 1
				m.nodes["n1"].putAt("t", last, 2*c.ready)
				for _, d := range k.takeSome(c.ready) {
					if err := k.Finish(d.ID); err != nil {
						t.Fatal(err)
					}
				}
				for range 3 { // and back again, for the source that has lent it
					m.nodes["n1"].putAt("t", 0, 1)
					began := time.Now()
					for got := -1; got != 0; {
						d := k.takeSome(1)[0]
						if got = d.ID.Partition(); time.Since(began) > time.Second {
							t.Fatalf("what came to partition 0 is not delivered for %v", time.Since(began))
						}
						if err := k.Finish(d.ID); err != nil {
							t.Fatal(err)
						}
					}
					m.nodes["n1"].putAt("t", last, c.ready)
				}
			})
		})
	}
}

// TestLentCreditIsReturned checks that a leader that has lent all of its credit
// delivers as many messages as the leader that borrowed it, to a client that is
// always nearly full.
func TestLentCreditIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1", "n2", "n3")
		m.create("t", "n2", "n3")
		k := m.nodes["n1"].subscribe("t", "c")
		const ready, messages = 10, 200
		k.SetReady(ready)
		m.nodes["n1"].putAt("t", 1, messages)
		held := k.takeSome(ready)
		m.nodes["n1"].putAt("t", 0, messages)
		var got [2]int
		for range messages {
			if err := k.Finish(held[0].ID); err != nil {
				t.Fatal(err)
			}
			held = append(held[1:], k.takeSome(1)...)
			got[held[ready-1].ID.Partition()]++
			if n := k.Sources.Load().InFlight(); n > ready {
				t.Fatalf("%d in flight", n)
			}
			synctest.Wait()
		}
		if got[0] < messages/3 || got[1] < messages/3 {
			t.Errorf("got %v of the two partitions", got)
		}
		for _, n := range []meta.NodeID{"n2", "n3"} {
			if s := m.nodes[n].channelStats("t", "c"); s.TimedOutTotal > 0 || s.InFlight > ready {
				t.Errorf("%s: %+v", n, s)
			}
		}
	})
}

// putAt publishes count messages to a partition.
func (n *node) putAt(name string, partition, count int) {
	n.t.Helper()
	for range count {
		if r := n.publish(publish.Request{Topic: name, Partition: partition, Messages: []topic.Message{{Body: []byte("x")}}}); r.Err != nil {
			n.t.Fatal(r.Err)
		}
	}
}

// TestOneMessageAtATimeFromTwoLeaders: a client that takes one message at a time gets all
// messages of two other nodes, however changes of credit and the leaders' reports overlap.
func TestOneMessageAtATimeFromTwoLeaders(t *testing.T) {
	m := newMesh(t, "n1", "n2", "n3")
	m.create("t", "n2", "n3")
	c := m.nodes["n1"].subscribe("t", "c")
	c.SetReady(1)
	for round := range 200 {
		for p := range 2 {
			m.nodes["n1"].putAt("t", p, 1+(round+p)%3)
		}
		for range 2 + round%3 + (round+1)%3 {
			c.take(1)
		}
	}
}

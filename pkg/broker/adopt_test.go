package broker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/relay"
	"github.com/brokerd/brokerd/pkg/topic"
)

func TestConsumersAtOneAddressGetEveryPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1", "n2", "n3")
		m.create("t", "n1", "n2", "n3")
		c := m.nodes["n1"].subscribe("t", "c")
		var want []string
		for i := range 30 {
			body := fmt.Sprintf("%02d", i)
			want = append(want, body)
			if r := m.nodes["n1"].publish(publish.Request{Topic: "t", Partition: i % 3, Messages: []topic.Message{{Body: []byte(body)}}}); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		if got := c.take(30); got != strings.Join(want, " ") {
			t.Errorf("got %s", got)
		}
		if live := c.Sources.Load().Live(); live != 3 {
			t.Errorf("%d sources", live)
		}

		// a consumer subscribes at n2: it gets the messages of n2's partitions
		d := m.nodes["n2"].subscribe("t", "c")
		eventually(t, func() bool {
			if _, err := c.Take(time.Now(), 1, func(*topic.Delivery) error { return nil }); err != nil {
				t.Fatal(err)
			}
			return c.Sources.Load().Live() == 2
		})
		m.nodes["n1"].publish(publish.Request{Topic: "t", Partition: 1, Messages: []topic.Message{{Body: []byte("x")}}})
		if got := d.take(1); got != "x" {
			t.Errorf("got %s", got)
		}
		c.idle()
	})
}

// Existing consumers get the messages of an added partition, whichever node leads it:
// a client of a node that leads no partition keeps its messages in flight, and gets
// the rest.
func TestAddedPartitionIsConsumedFromAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1", "n2", "n3")
		m.create("t", "n2")
		c := m.nodes["n1"].subscribe("t", "c")
		m.nodes["n2"].put("t", "x")
		held := c.takeSome(1)[0]
		if _, err := m.meta.Propose(t.Context(), meta.AddPartitions{Name: "t", Was: 1, Assignment: [][]meta.NodeID{{"n2"}, {"n3"}}}); err != nil {
			t.Fatal(err)
		}
		m.converge("t")
		for _, partition := range []int{1, 2} {
			body := fmt.Sprint(partition)
			if r := m.nodes["n1"].publish(publish.Request{Topic: "t", Partition: partition, Messages: []topic.Message{{Body: []byte(body)}}}); r.Err != nil {
				t.Fatal(r.Err)
			}
			if got := c.take(1); got != body {
				t.Errorf("got %s", got)
			}
		}
		if err := c.Finish(held.ID); err != nil {
			t.Error(err)
		}
		if why := c.ended.Load(); why != nil {
			t.Errorf("the consumer was disconnected: %v", *why)
		}
	})
}

func TestEndedRelayLosesNoMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1", "n2")
		m.create("t", "n1", "n2")
		c := m.nodes["n1"].subscribe("t", "c")
		m.nodes["n2"].put("t", "x")
		got := c.takeSome(1)[0]
		d := m.nodes["n2"].subscribe("t", "c")
		r := c.Sources.Load().Relays[0]
		eventually(t, func() bool { return r.Claim().Retiring })
		if err := c.Finish(got.ID); err != nil {
			t.Error(err)
		}
		eventually(t, r.Gone)
		d.idle()
	})
}

// If a node leads one of several partitions in a new epoch, and no other node led in between, the relay
// at the other node keeps the partition: it does not ask for it again.
func TestRelayContinuesInNewEpoch(t *testing.T) {
	for _, elections := range []int{1, 3, 3, 3, 3, 3, 3, 3} {
		synctest.Test(t, func(t *testing.T) {
			m := newMesh(t, "n1", "n2")
			m.create("t", "n2", "n2")
			c := m.nodes["n1"].subscribe("t", "c")
			if r := m.nodes["n2"].publish(publish.Request{Topic: "t", Messages: []topic.Message{{Body: []byte("held")}}}); r.Err != nil {
				t.Fatal(r.Err)
			}
			held := c.takeSome(1)[0]
			for range elections {
				p := m.meta.Topic("t").Partitions[1]
				r, err := m.meta.Propose(t.Context(), meta.ElectLeaders{Elections: []meta.Election{
					{Topic: "t", Partition: 1, Version: p.Version, Leader: "n2", Reason: meta.ReasonRepair},
				}})
				if err = errors.Join(append(r.Failed, err)...); err != nil {
					t.Fatal(err)
				}
			}
			m.converge("t") // of several elections nodes see the last one only, mostly
			if r := m.nodes["n2"].publish(publish.Request{Topic: "t", Partition: 1, Messages: []topic.Message{{Body: []byte("new")}}}); r.Err != nil {
				t.Fatal(r.Err)
			}
			got := c.take(1)
			if elections > 1 && got == "held" { // the relay has ended: others may have led in between
				got = c.take(1)
			}
			if got != "new" {
				t.Errorf("got %s", got)
			}
			if err := c.Finish(held.ID); elections == 1 && err != nil {
				t.Error(err)
			}
			if why := c.ended.Load(); why != nil {
				t.Errorf("the consumer was disconnected: %v", *why)
			}
		})
	}
}

// A message that an ordered channel sent to another node in the earlier term is delivered first to a
// consumer in the next term. The other node must not deliver it after that.
func TestOrderedRelayEndsWithTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1", "n2")
		m.create("t", "n2", "n2")
		if err := m.nodes["n2"].Directory.CreateChannel(t.Context(), "t", "c", true); err != nil {
			t.Fatal(err)
		}
		m.converge("t")
		c := m.nodes["n1"].subscribe("t", "c")
		relay := c.Sources.Load().Relays[0]
		r, err := m.meta.Propose(t.Context(), meta.ElectLeaders{Elections: []meta.Election{
			{Topic: "t", Partition: 1, Version: m.meta.Topic("t").Partitions[1].Version, Leader: "n2", Reason: meta.ReasonRepair},
		}})
		if err = errors.Join(append(r.Failed, err)...); err != nil {
			t.Fatal(err)
		}
		m.converge("t")
		eventually(t, relay.Gone)
		if r := m.nodes["n2"].publish(publish.Request{Topic: "t", Partition: 1, Messages: []topic.Message{{Body: []byte("new")}}}); r.Err != nil {
			t.Fatal(r.Err)
		}
		if got := c.take(1); got != "new" {
			t.Errorf("got %s", got)
		}
	})
}

// A relay that holds messages and requests no more, because its client does not read or because it
// holds many, gets no notice of a new term from the leader. It must not deliver its messages after
// those that other consumers get first in that term.
func TestOrderedRelayDeliversNothingOfEarlierTerm(t *testing.T) {
	for name, x := range map[string]struct {
		order  policy.Order
		unread time.Duration
		size   int
	}{
		"strict, it fetches":          {policy.Strict, 100 * time.Millisecond, 10},
		"strict, the client stalls":   {policy.Strict, time.Second, 10},
		"strict, a large message":     {policy.Strict, 100 * time.Millisecond, relay.QueueBytes + 1},
		"by key, it holds much":       {policy.ByKey, 100 * time.Millisecond, relay.QueueBytes / 2},
		"by key, the client stalls":   {policy.ByKey, time.Second, 10},
		"strict, a stall just begins": {policy.Strict, 401 * time.Millisecond, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMesh(t, "n1", "n2")
				m.create("t", "n2")
				if _, err := m.meta.Propose(t.Context(), meta.CreateChannel{Topic: "t", Channel: "c", Order: x.order}); err != nil {
					t.Fatal(err)
				}
				m.converge("t")
				timeout := func(s *consume.Subscribe) { s.MsgTimeout = 400 * time.Millisecond }
				c := m.nodes["n1"].subscribe("t", "c", timeout)
				for _, body := range []string{"a", "b", "c"} {
					m.nodes["n2"].put("t", padded(body, x.size))
				}
				time.Sleep(x.unread)
				synctest.Wait()
				d := m.nodes["n2"].subscribe("t", "c", timeout)
				r, err := m.meta.Propose(t.Context(), meta.ElectLeaders{Elections: []meta.Election{
					{Topic: "t", Partition: 0, Version: m.meta.Topic("t").Partitions[0].Version, Leader: "n2", Reason: meta.ReasonRepair},
				}})
				if err = errors.Join(append(r.Failed, err)...); err != nil {
					t.Fatal(err)
				}
				m.converge("t")
				synctest.Wait()
				for range 3 {
					if err := d.Finish(d.takeSome(1)[0].ID); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				if _, err := c.Take(time.Now(), 10, func(x *topic.Delivery) error {
					t.Errorf("%.1s is delivered behind all others", x.Body)
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// The metadata at the client's node may be behind: until it has the new epoch, only the leader can end
// the relay.
func TestLeaderEndsOrderedRelayWithTerm(t *testing.T) {
	for _, order := range []policy.Order{policy.Unordered, policy.Strict, policy.ByKey} {
		synctest.Test(t, func(t *testing.T) {
			m := newMesh(t, "n1", "n2")
			m.create("t", "n2", "n2")
			_, err := m.meta.Propose(t.Context(), meta.CreateChannel{Topic: "t", Channel: "c", Order: order})
			if err != nil {
				t.Fatal(err)
			}
			m.converge("t")
			ask := func(kind uint8, payload []byte) error {
				got := make(chan error, 1)
				m.nodes["n2"].Calls.HandleForward("n1", 1, kind, payload, func(_ [][]byte, err error) { got <- err })
				return forward.FromRemote(<-got)
			}
			err = ask(forward.KindSubscribe, (&forward.Subscribe{
				Handle: 7, Topic: "t", Incarnation: m.meta.Topic("t").Incarnation, Channel: "c",
				Partitions: []int{0, 1}, MsgTimeout: time.Minute, Credit: 10,
			}).Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			fetched := make(chan error, 1)
			go func() { fetched <- ask(forward.KindFetch, forward.Fetch{Handle: 7, MaxBytes: 1}.Append(nil)) }()
			synctest.Wait()
			r, err := m.meta.Propose(t.Context(), meta.ElectLeaders{Elections: []meta.Election{
				{Topic: "t", Partition: 1, Version: m.meta.Topic("t").Partitions[1].Version, Leader: "n2", Reason: meta.ReasonRepair},
			}})
			if err = errors.Join(append(r.Failed, err)...); err != nil {
				t.Fatal(err)
			}
			m.converge("t")
			m.nodes["n2"].put("t", "new")
			err = <-fetched
			ended := err != nil && err.Error() == host.ErrLedElsewhere.Error()
			if ended != (order != policy.Unordered) {
				t.Errorf("%v: %v", order, err)
			}
		})
	}
}

func TestLostPartitionIsAdoptedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1", "n2", "n3")
		m.create("t", "n2", "n3")
		c := m.nodes["n1"].subscribe("t", "c")
		m.link("n1", "n2").cut(true)
		eventually(t, func() bool { return c.Sources.Load().Live() == 1 })
		if c.ended.Load() != nil {
			t.Error("the client was disconnected, though there is another partition")
		}
		m.link("n1", "n2").cut(false)
		m.nodes["n2"].put("t", "x")
		if got := c.take(1); got != "x" {
			t.Errorf("got %s", got)
		}
	})
}

// TestConsumersAtOneAddressFollowLeader moves the leadership around, with
// consumers at a node without a replica.
func TestConsumersAtOneAddressFollowLeader(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2")
	l.inSync("t", 0, 2)
	at := &node{Broker: l.at("n3"), t: t}
	c, d := at.subscribe("t", "c"), at.subscribe("t", "d")
	for i := range 6 {
		body := fmt.Sprint(i)
		at.put("t", body)
		if x, y := c.take(1), d.take(1); x != body || y != body {
			t.Fatalf("got %s and %s, want %s", x, y, body)
		}
		to := []meta.NodeID{"n2", "n1"}[i%2]
		if err := l.transfer(t.Context(), "t", to); err != nil {
			t.Fatal(err)
		}
	}
	if c.ended.Load() != nil || d.ended.Load() != nil {
		t.Error("a client was disconnected")
	}
}

// TestRelayDoesNotWaitForHungLeader replaces a leader that hangs.
func TestRelayDoesNotWaitForHungLeader(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2")
	l.inSync("t", 0, 2)
	l.leader("t", 0)
	c := (&node{Broker: l.at("n3"), t: t}).subscribe("t", "c")
	way := l.hosts["n1"].remote(l.hosts["n3"])
	release := make(chan struct{})
	defer close(release)
	way.mu.Lock()
	way.postLocked(func() { <-release })
	way.mu.Unlock()
	l.elect("t", 0, "n2")
	l.mustPut("t", 0, "x")
	if got := c.take(1); got != "x" || c.ended.Load() != nil {
		t.Errorf("got %s", got)
	}
}

// TestClientGetsNothingFromReplacedLeader: the relay holds its messages and does not know of
// the change, but the new leader may have delivered them and later ones to other consumers.
func TestClientGetsNothingFromReplacedLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2", "n3")
		l.create("t", "n1", "n2")
		l.inSync("t", 0, 2)
		c := (&node{Broker: l.at("n3"), t: t}).subscribe("t", "c")
		l.mustPut("t", 0, "a")
		synctest.Wait()
		way := l.hosts["n1"].remote(l.hosts["n3"])
		release := make(chan struct{})
		defer close(release)
		way.mu.Lock()
		way.postLocked(func() { <-release }) // n1 hangs
		way.mu.Unlock()
		l.create("other", "n1")
		synctest.Wait() // the check of relays has just run
		l.elect("t", 0, "n2")
		if n, err := c.Take(time.Now(), 1, func(*topic.Delivery) error { return nil }); n > 0 || err != nil {
			t.Errorf("took %d messages of the leader before, %v", n, err)
		}
		if got := c.take(1); got != "a" || c.ended.Load() != nil {
			t.Errorf("got %s", got)
		}
	})
}

func TestRelayLosesOnePartitionAndKeepsTheOther(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	cfg := meta.TopicConfig{Replicas: 2, Partitions: 2}.WithDefaults(2, false)
	if _, err := l.store.Propose(t.Context(), meta.CreateTopic{
		Name: "t", Config: cfg, Assignment: [][]meta.NodeID{{"n1", "n2"}, {"n1", "n2"}},
	}); err != nil {
		t.Fatal(err)
	}
	c := (&node{Broker: l.at("n3"), t: t}).subscribe("t", "c")
	l.mustPut("t", 0, "a")
	l.mustPut("t", 1, "b")
	first := c.takeSome(2)
	l.inSync("t", 0, 2)
	l.elect("t", 0, "n2")
	again := c.takeSome(1)[0]
	if string(again.Body) != "a" || again.ID != first[0].ID && again.ID != first[1].ID {
		t.Errorf("got %+v", again)
	}
	for _, d := range first { // of both, wherever they are now
		if err := c.Finish(d.ID); err != nil {
			t.Errorf("%s: %v", d.Body, err)
		}
	}
	c.idle()
	if n := c.Sources.Load().InFlight(); n != 0 || c.ended.Load() != nil {
		t.Errorf("%d in flight", n)
	}
}

package broker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

func TestConsumerIsServedFromAnotherNode(t *testing.T) {
	m := newMesh(t, "n1", "n2", "n3")
	m.create("t", "n2", "n3", "n2")
	c := m.nodes["n1"].subscribe("t", "c")
	want := []string{}
	for i := range 300 {
		body := fmt.Sprintf("%03d", i)
		want = append(want, body)
		r := m.nodes["n1"].publish(publish.Request{Topic: "t", Partition: i % 3, Messages: []topic.Message{{
			Body: []byte(body), TraceID: uint64(i), Header: []byte(`{"a":1}`),
		}}})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if got := c.take(300); got != strings.Join(want, " ") {
		t.Errorf("got %s", got)
	}
	c.idle()
	eventually(t, func() bool { return m.nodes["n2"].finished("t", "c")+m.nodes["n3"].finished("t", "c") == 300 })
}

// finished returns how many messages of a channel were finished on this node.
func (n *meshNode) finished(name, channel string) uint64 {
	return n.channelStats(name, channel).FinishedTotal
}

func (n *meshNode) channelStats(name, channel string) stats.Channel {
	for _, s := range n.Node.TopicStats(name, channel, true) {
		for _, c := range s.Channels {
			return c
		}
	}
	return stats.Channel{}
}

// takeSome takes up to k messages, and does not answer them.
func (c *consumer) takeSome(k int) []topic.Delivery {
	c.t.Helper()
	var got []topic.Delivery
	deadline := time.After(patience)
	for len(got) < k {
		n, err := c.Take(time.Now(), k-len(got), func(d *topic.Delivery) error {
			e := *d
			e.Body = slices.Clone(d.Body)
			got = append(got, e)
			return nil
		})
		if err != nil {
			c.t.Fatal(err)
		}
		if n > 0 {
			continue
		}
		select {
		case <-c.woken:
		case <-deadline:
			c.t.Fatalf("got only %d of %d messages", len(got), k)
		}
	}
	return got
}

// idle checks for a while that the consumer finds no message.
func (c *consumer) idle() {
	c.t.Helper()
	end := time.After(50 * time.Millisecond)
	for {
		if n, err := c.Take(time.Now(), 10, func(*topic.Delivery) error { return nil }); n > 0 || err != nil {
			c.t.Fatalf("took %d, %v", n, err)
		}
		select {
		case <-c.woken:
		case <-end:
			return
		}
	}
}

func TestCreditIsNeverExceeded(t *testing.T) {
	m := newMesh(t, "n1", "n2", "n3")
	m.create("t", "n2", "n3")
	c := m.nodes["n1"].subscribe("t", "c")
	c.SetReady(1)
	for i := range 20 {
		if r := m.nodes["n1"].publish(publish.Request{Topic: "t", Partition: i % 2, Messages: []topic.Message{{Body: []byte("x")}}}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	seen := map[int]int{}
	for range 20 {
		d := c.takeSome(1)[0]
		if n, err := c.Take(time.Now(), 10, func(*topic.Delivery) error { return nil }); n > 0 || err != nil {
			t.Fatalf("%d more, %v", n, err)
		}
		seen[d.ID.Partition()]++
		if err := c.Finish(d.ID); err != nil {
			t.Fatal(err)
		}
	}
	if seen[0] != 10 || seen[1] != 10 {
		t.Errorf("got %v", seen)
	}
	if d := m.nodes["n2"].channelStats("t", "c").TimedOutTotal + m.nodes["n3"].channelStats("t", "c").TimedOutTotal; d > 0 {
		t.Errorf("%d timed out", d)
	}
	c.SetReady(0)
	m.nodes["n1"].publish(publish.Request{Topic: "t", Messages: []topic.Message{{Body: []byte("x")}}})
	c.idle()
	c.SetReady(5)
	c.take(1)
}

func TestRelayedClientStaysWhenLeaderDies(t *testing.T) {
	for name, gone := range map[string]func(m *mesh){
		"session": func(m *mesh) {
			m.link("n1", "n2").cut(true)
			m.link("n1", "n2").cut(false)
		},
		"leadership": func(m *mesh) {
			for _, lp := range m.nodes["n2"].Host.Lookup("t").AllLed() {
				lp.Part.Gate.Disconnect(host.ErrLedElsewhere)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMesh(t, "n1", "n2")
			m.create("t", "n2")
			c := m.nodes["n1"].subscribe("t", "c")
			pinned := m.nodes["n1"].subscribe("t", "pinned", func(s *consume.Subscribe) { s.Partition = 0 })
			m.nodes["n2"].put("t", "x")
			first := c.takeSome(1)[0]
			gone(m)
			if again := c.takeSome(1)[0]; again.ID != first.ID || again.Attempts != 2 {
				t.Errorf("got %+v", again)
			}
			if err := c.Finish(first.ID); err != nil {
				t.Error(err)
			}
			if c.ended.Load() != nil {
				t.Errorf("told to go: %v", *c.ended.Load())
			}
			eventually(t, func() bool { return pinned.ended.Load() != nil })
		})
	}
}

func TestClientIsNotifiedOfDeletedChannel(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	c := m.nodes["n1"].subscribe("t", "c")
	m.nodes["n2"].put("t", "x")
	d := c.takeSome(1)[0]
	if _, err := m.meta.Propose(m.t.Context(), meta.DeleteChannel{Topic: "t", Channel: "c"}); err != nil {
		m.t.Fatal(err)
	}
	eventually(t, func() bool { return c.ended.Load() != nil })
	if err := *c.ended.Load(); !errors.Is(err, failure.ChannelNotFound) {
		t.Errorf("got %v", err)
	}
	if err := c.Finish(d.ID); !errors.Is(err, failure.NotInFlight) {
		t.Errorf("got %v", err)
	}
}

func TestUnservableClientIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1", "n2")
		m.create("t", "n2")
		c := m.nodes["n1"].subscribe("t", "c")
		if err := m.nodes["n2"].Close(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for end := began.Add(2 * consume.OrphanTimeout); c.ended.Load() == nil && time.Now().Before(end); {
			<-c.woken
			if _, err := c.Take(time.Now(), 1, func(*topic.Delivery) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.ended.Load(); err == nil || !errors.Is(*err, consume.ErrNoSource) || time.Since(began) < consume.OrphanTimeout {
			t.Errorf("told %v after %v", err, time.Since(began))
		}
	})
}

func TestLeavingReturnsInFlightMessages(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	c := m.nodes["n1"].subscribe("t", "c")
	for _, b := range []string{"a", "b", "c"} {
		m.nodes["n2"].put("t", b)
	}
	got := c.takeSome(3)
	if err := c.Finish(got[1].ID); err != nil {
		t.Fatal(err)
	}
	c.StopDelivery()
	c.Close()
	d := m.nodes["n2"].subscribe("t", "c")
	if got := d.take(2); got != "a c" {
		t.Errorf("got %s", got)
	}
	eventually(t, func() bool { served, _ := m.nodes["n2"].Consumers.Relayed(); return served == 0 })
}

func TestSubscribeOptionsAreForwarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeshWith(t, func(o *Options) { o.MaxChannelConsumers, o.PublishTimeout = 1, 50*time.Millisecond }, "n1", "n2")
		m.create("t", "n2", "n1", "n2")
		one := m.nodes["n1"].subscribe("t", "one", func(s *consume.Subscribe) { s.Partition = 2 })
		sampled := m.nodes["n1"].subscribe("t", "sampled", func(s *consume.Subscribe) { s.Partition, s.SampleRate = 2, 1 })
		for i := range 300 {
			m.nodes["n1"].publish(publish.Request{Topic: "t", Partition: i % 3, Messages: []topic.Message{{Body: fmt.Appendf(nil, "%d", i%3)}}})
		}
		for _, d := range one.takeSome(100) {
			if string(d.Body) != "2" {
				t.Fatalf("got %s", d.Body)
			}
		}
		one.idle()
		eventually(t, func() bool {
			n, err := sampled.Take(time.Now(), 300, func(*topic.Delivery) error { return nil })
			if err != nil || n > 50 {
				t.Fatalf("took %d, %v", n, err)
			}
			s := m.nodes["n2"].channelStats("t", "sampled")
			return s.Depth == 100 && s.DeliveredTotal < 50 // partition 0 has no consumer
		})
		n1 := m.nodes["n1"]
		r := consume.Subscribe{Topic: "t", Channel: "one", Partition: 3, Client: one, MsgTimeout: time.Minute, Wake: one.wake}
		if _, err := n1.Consumers.Subscribe(t.Context(), r); !errors.Is(err, failure.PartitionNotFound) {
			t.Errorf("got %v", err)
		}
		r.Partition = 2
		if _, err := n1.Consumers.Subscribe(t.Context(), r); !errors.Is(err, failure.TooManyConsumers) {
			t.Errorf("got %v", err)
		}
		m.link("n1", "n2").cut(true)
		if _, err := n1.Consumers.Subscribe(t.Context(), r); !errors.Is(err, consume.ErrNotReached) {
			t.Errorf("got %v", err)
		}
	})
}

// The first consumer of a channel decides where it begins and makes it ordered, at
// any node. Later consumers do not.
func TestFirstConsumerChoosesStartAcrossNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1", "n2")
		m.create("t", "n2", "n1")
		m.nodes["n1"].subscribe("t", "c").Close()
		for i := range 10 {
			m.nodes["n2"].put("t", fmt.Sprint(i))
		}
		from := func(n int64, ordered bool) func(*consume.Subscribe) {
			return func(s *consume.Subscribe) {
				s.Partition, s.Ordered, s.Start = 0, ordered, topic.Start{Kind: topic.StartAtMessage, Value: n}
			}
		}
		for _, node := range []meta.NodeID{"n1", "n2"} {
			first := m.nodes[node].subscribe("t", "c", from(4, false))
			got := first.takeSome(2)
			later := m.nodes[node].subscribe("t", "c", from(1, false))
			got = append(got, first.takeSome(1)...)
			for i, want := range []string{"3", "4", "5"} {
				if string(got[i].Body) != want {
					t.Errorf("at %s, message %d is %s, want %s", node, i, got[i].Body, want)
				}
			}
			first.Close()
			later.Close()
			synctest.Wait()
		}
		c := m.nodes["n1"].subscribe("t", "c", from(9, true))
		if got := c.takeSome(1); string(got[0].Body) != "8" {
			t.Errorf("got %s", got[0].Body)
		}
		c.idle()
	})
}

// The leader chooses the messages of a consumer at another node.
func TestRemoteConsumerGetsSelectedMessages(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	filter, err := header.ParseFilter([]byte(`{"type":2,"filter_ext_key":"k","filter_data":"."}`))
	if err != nil {
		t.Fatal(err)
	}
	vip := m.nodes["n1"].subscribe("t", "c", func(s *consume.Subscribe) { s.Tag = "vip" })
	rest := m.nodes["n2"].subscribe("t", "c", func(s *consume.Subscribe) { s.Filter = filter })
	for i := range 60 {
		head := []string{`{"##client_dispatch_tag":"vip"}`, `{"k":"v"}`, `{"k":""}`}[i%3]
		r := m.nodes["n1"].publish(publish.Request{Topic: "t", Messages: []topic.Message{{Body: fmt.Appendf(nil, "%d", i%3), Header: []byte(head)}}})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	for c, want := range map[*consumer]string{vip: "0", rest: "1"} {
		for _, d := range c.takeSome(20) {
			if string(d.Body) != want {
				t.Errorf("got %s, want %s", d.Body, want)
			}
		}
		c.idle()
	}
	eventually(t, func() bool { s := m.nodes["n2"].channelStats("t", "c"); return s.Depth == 0 && s.InFlight == 40 })
}

func TestRelayKeepsOrder(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	c := m.nodes["n1"].subscribe("t", "c", func(s *consume.Subscribe) { s.Ordered = true })
	for i := range 50 {
		m.nodes["n2"].put("t", fmt.Sprint(i))
	}
	for i := range 50 {
		d := c.takeSome(1)[0]
		if string(d.Body) != fmt.Sprint(i) || c.Sources.Load().InFlight() != 1 {
			t.Fatalf("got %s, %d in flight", d.Body, c.Sources.Load().InFlight())
		}
		if err := c.Finish(d.ID); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEphemeralChannelIsDeletedWithItsRelay(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	c := m.nodes["n1"].subscribe("t", "c#ephemeral")
	m.nodes["n1"].put("t", "x")
	c.take(1)
	c.Close()
	eventually(t, func() bool { return len(m.nodes["n2"].Host.Lookup("t").Led(0).Part.Channels()) == 0 })
}

// TestWaitingConsumersAreServedInTurn has clients of this and another node wait for the
// messages of one partition.
func TestWaitingConsumersAreServedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, "n1", "n2")
		m.create("t", "n1")
		var all []*consumer
		for _, at := range []meta.NodeID{"n1", "n2", "n1", "n2"} {
			all = append(all, m.nodes[at].subscribe("t", "c"))
		}
		const messages = 200
		var got [4]int
		sum := func() int { return got[0] + got[1] + got[2] + got[3] }
		for sent := range messages {
			m.nodes["n1"].put("t", "x")
			for try := 0; sum() == sent; try++ { // until a consumer has it
				if try == 100 {
					t.Fatalf("no consumer gets message %d", sent)
				}
				synctest.Wait()
				for i, c := range all {
					select {
					case <-c.woken:
						got[i] += c.takeAll()
					default:
					}
				}
			}
		}
		for i, n := range got {
			if n < messages/len(got)/2 {
				t.Errorf("consumer %d got %d of %d messages: %v", i, n, messages, got)
			}
		}
	})
}

// takeAll takes all available messages, and finishes them.
func (c *consumer) takeAll() int {
	c.t.Helper()
	var ids []seq.MessageID
	for {
		n, err := c.Take(time.Now(), 10, func(d *topic.Delivery) error { ids = append(ids, d.ID); return nil })
		if err != nil {
			c.t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	for _, id := range ids {
		if err := c.Finish(id); err != nil {
			c.t.Fatal(err)
		}
	}
	return len(ids)
}

func TestEphemeralTopicStaysWhileAnotherLeaderMayHaveItsChannels(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t#ephemeral", "n1", "n2")
	c := m.nodes["n1"].subscribe("t#ephemeral", "c#ephemeral")
	m.nodes["n2"].subscribe("t#ephemeral", "d#ephemeral").Close()
	if m.meta.Topic("t#ephemeral") == nil || c.ended.Load() != nil {
		t.Error("the topic has gone under a consumer")
	}
}

func TestLargeMessagesAreRelayed(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	c := m.nodes["n1"].subscribe("t", "c")
	for i := range 6 {
		m.nodes["n2"].put("t", strings.Repeat(fmt.Sprint(i), 1<<20))
	}
	for i, d := range c.takeSome(6) {
		if len(d.Body) != 1<<20 {
			t.Errorf("message %d has %d bytes", i, len(d.Body))
		}
		if err := c.Finish(d.ID); err != nil {
			t.Error(err)
		}
	}
}

// TestAbandonedRelayNotifiesLeader: its subscription there would otherwise
// get messages that no client receives, until they time out.
func TestAbandonedRelayNotifiesLeader(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	c := m.nodes["n1"].subscribe("t", "c")
	m.nodes["n2"].put("t", "a")
	first := c.takeSome(1)[0]
	broke := make(chan struct{})
	var once sync.Once
	m.link("n1", "n2").refuse(func(kind uint8) (err error) {
		if kind == forward.KindAnswer {
			once.Do(func() {
				err = fate.Refuse("too much waits to be sent")
				close(broke)
			})
		}
		return err
	})
	if err := c.Finish(first.ID); err != nil {
		t.Fatal(err)
	}
	<-broke
	for _, body := range []string{"b", "c", "d"} {
		m.nodes["n2"].put("t", body)
	}
	got := strings.Fields(c.take(4))
	slices.Sort(got)
	if fmt.Sprint(got) != "[a b c d]" {
		t.Errorf("got %v", got)
	}
}

// subscriptions returns the subscriptions to a channel in partitions that the node leads.
func (n *meshNode) subscriptions(name, channel string) (all []*consume.Subscription) {
	for _, lp := range n.Host.Lookup(name).AllLed() {
		for _, k := range lp.Part.Channel(channel).Consumers() {
			all = append(all, k.Owner().(*consume.Subscription))
		}
	}
	return all
}

package broker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

// poison publishes a message and requeues it until it is no longer delivered.
func (c *consumer) poison(deliveries int) {
	c.t.Helper()
	for range deliveries {
		if err := c.Requeue(c.takeSome(1)[0].ID, 0); err != nil {
			c.t.Fatal(err)
		}
	}
}

func (n *node) bound(name, channel string, p policy.Patch) {
	n.t.Helper()
	if err := n.Contents.Policies().AlterChannel(n.t.Context(), meta.AlterChannel{Topic: name, Channel: channel, Policy: &p}); err != nil {
		n.t.Fatal(err)
	}
}

// channelStats returns the figures of a channel on this node.
func (n *node) channelStats(name, channel string) stats.Channel {
	n.t.Helper()
	return n.Node.TopicStats(name, channel, false)[0].Channels[0]
}

func TestExhaustedMessageBecomesDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		c := n.subscribe("orders", "bill")
		n.bound("orders", "bill", policy.Patch{MaxAttempts: new(3)})
		if r := n.publish(publish.Request{Topic: "orders", Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte("poison"), Header: []byte(`{"a":1}`)}}}); r.Err != nil {
			t.Fatal(r.Err)
		}
		c.poison(3)
		n.put("orders", "good")
		if got := c.take(1); got != "good" {
			t.Errorf("behind it: %q", got)
		}
		time.Sleep(time.Second)
		peeked, err := n.Contents.Peek(t.Context(), operate.Peek{Topic: "orders.bill.dlq", Channel: deadletter.Channel, Partition: host.AnyPartition})
		if err != nil || len(peeked) != 1 || string(peeked[0].Body) != "poison" {
			t.Fatalf("dead letters: %+v, %v", peeked, err)
		}
		o, err := deadletter.ReadOrigin(peeked[0].Header)
		if err != nil || o.Topic != "orders" || o.Channel != "bill" || o.Attempts != 3 || !strings.HasPrefix(o.LastConsumer, "test") || string(o.Header) != `{"a":1}` {
			t.Errorf("%+v, %v", o, err)
		}
		s := n.channelStats("orders", "bill")
		if failed(s) != ([4]uint64{0, 0, 1, 0}) || s.Depth != 0 || s.Partitions[0].Confirmed != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestExhaustedMessageIsDroppedOrStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		c := n.subscribe("orders", "bill", func(s *consume.Subscribe) { s.Ordered = true })
		n.bound("orders", "bill", policy.Patch{MaxAttempts: new(2), OnExhausted: new(policy.Block)})
		n.put("orders", "poison", "next")
		c.poison(2)
		time.Sleep(time.Minute)
		s := n.channelStats("orders", "bill")
		if s.Exhausted != 1 || s.Partitions[0].Blocked == nil || *s.Partitions[0].Blocked != 0 {
			t.Fatalf("blocked: %+v", s)
		}
		if got, err := c.Take(time.Now(), 9, func(*topic.Delivery) error { return nil }); got != 0 || err != nil {
			t.Fatalf("%d delivered behind it, %v", got, err)
		}
		n.bound("orders", "bill", policy.Patch{OnExhausted: new(policy.Drop)})
		if got := c.take(1); got != "next" {
			t.Errorf("after it was dropped: %q", got)
		}
		synctest.Wait() // the message is counted once it is confirmed, which the next one does not wait for
		if s := n.channelStats("orders", "bill"); failed(s) != ([4]uint64{0, 0, 0, 1}) {
			t.Errorf("dropped: %+v", failed(s))
		}
		if n.meta.Topic("orders.bill.dlq") != nil {
			t.Error("there is a dead-letter topic")
		}
	})
}

// If the dead-letter topic refuses the message, the message stays, and the health
// report lists it.
func TestRefusedDeadLetterStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		c := n.subscribe("orders", "bill")
		if _, err := n.Directory.CreateTopic(t.Context(), "failed", meta.TopicConfig{MaxMessage: 3}); err != nil {
			t.Fatal(err)
		}
		n.bound("orders", "bill", policy.Patch{MaxAttempts: new(1), DeadLetterTopic: new("failed")})
		n.put("orders", "poison")
		c.poison(1)
		time.Sleep(10 * time.Second)
		if s := n.channelStats("orders", "bill"); s.Exhausted+s.InFlight != 1 || s.DeadLetteredTotal != 0 {
			t.Errorf("%+v", s)
		}
		if h := n.Node.Health(); !strings.Contains(reasonOf(h, "dead_letters_refused"), "orders/bill") {
			t.Errorf("health: %+v", h)
		}
		if err := n.Directory.AlterTopic(t.Context(), "failed", func(c *meta.TopicConfig) { c.MaxMessage = 0 }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if s := n.channelStats("orders", "bill"); failed(s) != ([4]uint64{0, 0, 1, 0}) || reasonOf(n.Node.Health(), "dead_letters_refused") != "" {
			t.Errorf("%+v, %+v", failed(s), n.Node.Health())
		}
	})
}

// Two topics are each other's dead-letter topics. A message that always fails does not go round for ever: it
// stays in one of the channels, and the health report lists that.
func TestDeadLettersDoNotGoRoundForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		names := []string{"one", "two"}
		var consumers []*consumer
		for _, name := range names {
			consumers = append(consumers, n.subscribe(name, "work"))
		}
		for i, name := range names {
			n.bound(name, "work", policy.Patch{MaxAttempts: new(1), DeadLetterTopic: &names[1-i]})
		}
		n.put("one", "poison")
		for round := range 17 {
			consumers[round%2].poison(1)
			time.Sleep(time.Second)
		}
		if s := n.channelStats("one", "work"); s.Exhausted+s.InFlight != 1 {
			t.Errorf("the message is not in its channel: %+v", s)
		}
		if h := reasonOf(n.Node.Health(), "dead_letters_refused"); !strings.Contains(h, "one/work") || !strings.Contains(h, "cycle") {
			t.Errorf("health: %q", h)
		}
		n.bound("one", "work", policy.Patch{OnExhausted: new(policy.Drop)})
		time.Sleep(10 * time.Second)
		if s := n.channelStats("one", "work"); s.Exhausted+s.InFlight+s.Depth != 0 || reasonOf(n.Node.Health(), "dead_letters_refused") != "" {
			t.Errorf("after a change of the policy: %+v, %+v", s, n.Node.Health())
		}
	})
}

func reasonOf(h health.Report, code string) string {
	for _, r := range h.Reasons {
		if r.Code == code {
			return r.What
		}
	}
	return ""
}

// The leader dies between two deliveries, or after the last: the next leader
// continues the count.
func TestDeadLettersSurviveFailOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		c := n.subscribe("orders", "bill")
		n.bound("orders", "bill", policy.Patch{MaxAttempts: new(3)})
		n.put("orders", "poison")
		c.poison(2)
		c.Close()
		n.restart()
		if p := topic.RetriesOf(n.Host.Lookup("orders").AllLed()[0].Part.Channel("bill")).Policy(); p.MaxAttempts != 3 {
			t.Fatalf("after a restart: %+v", p)
		}
		c = n.subscribe("orders", "bill")
		d := c.takeSome(1)[0]
		if d.Attempts != 3 {
			t.Errorf("attempt %d after a restart, want 3", d.Attempts)
		}
		if err := c.Requeue(d.ID, time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if s := n.channelStats("orders", "bill"); s.DeadLetteredTotal != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// A change of the cluster's defaults applies to existing channels, and to ephemeral ones.
func TestPolicyDefaultsReachEveryChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.subscribe("orders", "bill")
		n.subscribe("orders", "tail#ephemeral")
		if _, err := n.Host.Propose(t.Context(), meta.SetSettings{Values: map[string]string{meta.SettingChannelMaxAttempts: "7", meta.SettingChannelBackoff: "1s..1m"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for _, name := range []string{"bill", "tail#ephemeral"} {
			if p := topic.RetriesOf(n.Host.Lookup("orders").AllLed()[0].Part.Channel(name)).Policy(); p.MaxAttempts != 7 || p.Backoff.Max != time.Minute {
				t.Errorf("%s: %+v", name, p)
			}
		}
		n.subscribe("orders", "late#ephemeral")
		if p := topic.RetriesOf(n.Host.Lookup("orders").AllLed()[0].Part.Channel("late#ephemeral")).Policy(); p.MaxAttempts != 7 {
			t.Errorf("one made since: %+v", p)
		}
	})
}

// failed returns how many messages of a channel are exhausted, were backed off, dead-lettered and
// dropped.
func failed(s stats.Channel) [4]uint64 {
	return [4]uint64{uint64(s.Exhausted), s.BackedOffTotal, s.DeadLetteredTotal, s.DroppedTotal}
}

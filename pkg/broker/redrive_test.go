package broker

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/topic"
)

// settle settles dead letters of orders/bill.
func (n *node) settle(max int, change ...func(*operate.DeadLetterAction)) deadletter.Processed {
	n.t.Helper()
	a := operate.DeadLetterAction{Topic: "orders", Channel: "bill", Max: max}
	for _, f := range change {
		f(&a)
	}
	s, err := n.Contents.Policies().RedriveOrPurge(n.t.Context(), a)
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

func dryRun(a *operate.DeadLetterAction) { a.DryRun = true }
func purge(a *operate.DeadLetterAction)  { a.Purge = true }

// A message for a channel that was deleted, and created again, while a command redrove its dead letters was stored, and
// no channel got it.
func TestMessageForADeletedChannelIsRefused(t *testing.T) {
	l := newLan(t, nil, "n1", "n2")
	ctx := t.Context()
	l.create("t", "n1", "n2")
	l.inSync("t", 0, 2)
	d := l.at("n1").Directory
	if err := d.CreateChannel(ctx, "t", "c", false); err != nil {
		t.Fatal(err)
	}
	was := l.store.Topic("t").Channels["c"].Version
	redrive := func(id meta.NodeID) error {
		done := make(chan error, 1)
		m := topic.Message{Body: []byte("letter"), Address: &record.Address{Channel: uint64(was)}}
		l.at(id).Router.Publish(ctx, publish.Request{Topic: "t", Messages: []topic.Message{m}, Done: func(r topic.Receipt) { done <- r.Err }})
		return <-done
	}
	both := func(about string, want error) {
		for _, id := range []meta.NodeID{"n1", "n2"} { // here, and forwarded
			if err := redrive(id); !errors.Is(err, want) || want != nil && fate.Of(err) != fate.Refused {
				t.Errorf("%s, at %s: %v, want %v", about, id, err, want)
			}
		}
	}
	both("the channel exists", nil)
	if err := l.at("n1").Contents.DeleteChannel(ctx, "t", "c"); err != nil {
		t.Fatal(err)
	}
	both("it is deleted", failure.StaleVersion)
	if err := d.CreateChannel(ctx, "t", "c", false); err != nil {
		t.Fatal(err)
	}
	both("it was created again", failure.StaleVersion)
	if _, err := l.at("n2").Contents.RestoreChannel(ctx, "t", "c", true); err != nil {
		t.Fatal(err)
	}
	both("it is restored", nil)
}

// A leader knows of a channel from the metadata before it has added it to a partition, where the channel begins behind
// what was stored until then.
func TestMessageForAChannelThatHasYetToBeginIsRefused(t *testing.T) {
	l := newLan(t, nil, "n1")
	ctx := t.Context()
	l.create("t", "n1")
	if err := l.at("n1").Directory.CreateChannel(ctx, "t", "c", false); err != nil {
		t.Fatal(err)
	}
	h := l.at("n1").Host.Lookup("t")
	part := h.Led(0).Part
	send := func(to uint64) error {
		done := make(chan error, 1)
		m := topic.Message{Body: []byte("letter"), Address: &record.Address{Channel: to}}
		l.at("n1").Router.Publish(ctx, publish.Request{Topic: "t", Messages: []topic.Message{m}, Done: func(r topic.Receipt) { done <- r.Err }})
		return <-done
	}
	if err := part.RemoveChannel("c"); err != nil {
		t.Fatal(err)
	}
	if err := send(uint64(h.Config().Channels["c"].Version)); !errors.Is(err, failure.StaleVersion) {
		t.Errorf("stored before the channel is there: %v", err)
	}
	const gone = 9999 // the metadata has it no longer, and the partition has yet to remove it
	if _, err := part.AddChannel("gone", gone, topic.ChannelOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := send(gone); !errors.Is(err, failure.StaleVersion) {
		t.Errorf("stored for a channel that is being deleted: %v", err)
	}
}

func TestDeadLettersAreRedrivenToTheirChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		c, other := n.subscribe("orders", "bill"), n.subscribe("orders", "mail")
		n.bound("orders", "bill", policy.Patch{MaxAttempts: new(1)})
		for i := range 70 {
			n.put("orders", fmt.Sprintf("%02d", i))
		}
		other.take(70)
		c.poison(70)
		time.Sleep(time.Second)
		if got := n.settle(100, dryRun); got.Letters != 70 || got.More {
			t.Errorf("a dry run: %+v", got)
		}
		if got := n.settle(69, dryRun); got.Letters != 69 || !got.More {
			t.Errorf("a dry run of fewer: %+v", got)
		}
		if got := n.settle(1); got.Letters != 1 || !got.More {
			t.Errorf("the first: %+v", got)
		}
		d := c.takeSome(1)[0]
		if string(d.Body) != "00" || d.Attempts != 1 {
			t.Errorf("came back: %q, attempt %d", d.Body, d.Attempts)
		}
		if err := c.Finish(d.ID); err != nil {
			t.Fatal(err)
		}
		n.restart()
		c, other = n.subscribe("orders", "bill"), n.subscribe("orders", "mail")
		if got := n.settle(65); got.Letters != 65 || !got.More {
			t.Errorf("all but four: %+v", got)
		}
		c.take(65)
		if got := n.settle(4, purge); got.Letters != 4 || got.More {
			t.Errorf("the rest is purged: %+v", got)
		}
		if got := n.settle(100); got != (deadletter.Processed{}) {
			t.Errorf("once more: %+v", got)
		}
		time.Sleep(time.Second)
		for _, k := range []*consumer{c, other} {
			if got, err := k.Take(time.Now(), 9, func(*topic.Delivery) error { return nil }); got != 0 || err != nil {
				t.Errorf("%d messages more, %v", got, err)
			}
		}
		if s := n.channelStats("orders.bill.dlq", deadletter.Channel); s.Depth != 0 {
			t.Errorf("left: %+v", s)
		}
	})
}

// A dead letter has an id by which it is stored once. If a message is delivered again, after a
// redrive or a seek, and fails again, it becomes a different dead letter.
func TestMessageThatFailsAgainIsAnotherDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		c := n.subscribe("orders", "bill")
		n.bound("orders", "bill", policy.Patch{MaxAttempts: new(1)})
		n.put("orders", "poison")
		ids := map[string]bool{}
		fails := func(how string, letters int) {
			t.Helper()
			c.poison(1)
			time.Sleep(time.Second)
			part := n.Host.Lookup("orders.bill.dlq").Led(0).Part
			seen, err := part.Peek(part.Channel(deadletter.Channel), 0, 9, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range seen {
				ids[string(s.Message.Dedup)] = true
			}
			if len(seen) != 1 || len(ids) != letters || ids[""] {
				t.Errorf("%s: %d letters; there were %v, want %d", how, len(seen), ids, letters)
			}
		}
		fails("the first time", 1)
		n.settle(9)
		fails("brought back", 2)
		n.settle(9, purge)
		c.Close()
		if err := n.Contents.SeekChannel(t.Context(), "orders", "bill", operate.SeekTo{Start: true}); err != nil {
			t.Fatal(err)
		}
		c = n.subscribe("orders", "bill")
		fails("led back", 3)
	})
}

// Several channels share a dead-letter topic: each gets its own.
func TestSharedDeadLetterTopicSeparatesChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		a, b := n.subscribe("orders", "bill"), n.subscribe("orders", "mail")
		for _, name := range []string{"bill", "mail"} {
			n.bound("orders", name, policy.Patch{MaxAttempts: new(1), DeadLetterTopic: new("failed")})
		}
		n.put("orders", "x", "y")
		a.poison(2)
		b.poison(1)
		if got := b.take(1); got != "y" {
			t.Fatalf("finished %q", got)
		}
		n.put("failed", "not a dead letter")
		time.Sleep(time.Second)
		if got := n.settle(100); got.Letters != 2 || got.More {
			t.Errorf("of bill: %+v", got)
		}
		if got := a.take(2); got != "x y" {
			t.Errorf("bill got %q", got)
		}
		mail := func(s *operate.DeadLetterAction) { s.Channel = "mail" }
		if got := n.settle(100, mail); got.Letters != 1 {
			t.Errorf("of mail: %+v", got)
		}
		if got := b.take(1); got != "x" {
			t.Errorf("mail got %q", got)
		}
		if s := n.channelStats("failed", deadletter.Channel); s.Depth != 1 {
			t.Errorf("left: %+v, want what is no dead letter", s)
		}
	})
}

// A dead letter that cannot be redriven stays, and no message is lost.
func TestUnredrivableDeadLetterStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		c := n.subscribe("orders", "bill")
		n.bound("orders", "bill", policy.Patch{MaxAttempts: new(1)})
		n.put("orders", "poison")
		c.poison(1)
		time.Sleep(time.Second)
		if err := n.Directory.AlterTopic(t.Context(), "orders", func(c *meta.TopicConfig) { c.MaxMessage = 3 }); err != nil {
			t.Fatal(err)
		}
		a := operate.DeadLetterAction{Topic: "orders", Channel: "bill", Max: 9}
		if s, err := n.Contents.Policies().RedriveOrPurge(t.Context(), a); !errors.Is(err, failure.MessageTooBig) || s.Letters != 0 {
			t.Errorf("%+v, %v", s, err)
		}
		if got := n.settle(9, dryRun); got.Letters != 1 {
			t.Errorf("left: %+v", got)
		}
		a.Channel = "tail#ephemeral"
		if _, err := n.Contents.Policies().RedriveOrPurge(t.Context(), a); !errors.Is(err, failure.InvalidConfig) {
			t.Errorf("of an ephemeral channel: %v", err)
		}
		a.Channel = "other"
		if s, err := n.Contents.Policies().RedriveOrPurge(t.Context(), a); err != nil || s != (deadletter.Processed{}) {
			t.Errorf("of a channel without dead letters: %+v, %v", s, err)
		}
	})
}

package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/deferral"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// putLater publishes messages, deferred by the given minutes.
func (l *lan) putLater(name string, i int, minutes ...int) {
	l.t.Helper()
	for _, m := range minutes {
		got := make(chan error, 1)
		l.leader(name, i).Router.Publish(l.t.Context(), publish.Request{
			Topic: name, Partition: i, Messages: []topic.Message{{Body: fmt.Appendf(nil, "in %d", m), Delay: time.Duration(m) * time.Minute}},
			Done: func(r topic.Receipt) { got <- r.Err },
		})
		if err := <-got; err != nil {
			l.t.Fatal(err)
		}
	}
}

// Operators list, cancel and advance deferred messages of one channel, from any node. The
// next leaders, after kills, know of it, and the other channel is unaffected.
func TestDeferredMessagesAreCancelledAndAdvancedDurably(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2", "n3")
		ctx := t.Context()
		l.create("t", "n1", "n2", "n3")
		l.inSync("t", 0, 3)
		l.subscribe("t", "other", 0).Close()
		c := l.subscribe("t", "c", 0)
		l.mustPut("t", 0, "now")
		l.putLater("t", 0, 30, 10, 20, 40, 50)
		if err := c.Requeue(c.takeSome(1)[0].ID, 5*time.Minute); err != nil {
			t.Fatal(err)
		}
		c.idle()
		c.Close()
		until := func(minutes int) channel.Window {
			return channel.Window{Until: time.Now().Add(time.Duration(minutes) * time.Minute)}
		}
		var order []string
		var after *deferral.Place
		for {
			page, err := operate.Deferrals{Node: l.at("n3").Node}.List(ctx, deferral.Query{Topic: "t", Channel: "c", Window: until(45), After: after, Max: 2})
			if err != nil || page.Total != 5 {
				t.Fatalf("%+v, %v", page, err)
			}
			for _, m := range page.Messages {
				order = append(order, fmt.Sprintf("%d %s %d %d", m.Offset, m.Why, m.Attempts, m.Bytes))
				after = &deferral.Place{Due: m.Due, Partition: m.Partition, Offset: m.Offset}
			}
			if len(page.Messages) < 2 {
				break
			}
		}
		if want := []string{"0 requeued 1 3", "2 published 0 5", "3 published 0 5", "1 published 0 5", "4 published 0 5"}; !slices.Equal(order, want) {
			t.Errorf("%q", order)
		}
		change := func(at meta.NodeID, verb deferral.Verb, dry bool, w channel.Window, named ...seq.Offset) deferral.Changed {
			t.Helper()
			r := deferral.Change{Topic: "t", Channel: "c", Verb: verb, Window: w, DryRun: dry}
			if named != nil {
				r.Named = map[int][]seq.Offset{0: named}
			}
			done, err := operate.Deferrals{Node: l.at(at).Node}.Reschedule(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			return done[0]
		}
		if d := change("n2", deferral.Advance, true, until(25)); d.Count != 3 {
			t.Errorf("a dry run counts %d", d.Count)
		}
		if d := change("n2", deferral.Cancel, false, channel.Window{}, 2, 77); d.Count != 1 || !slices.Equal(d.Missed, []seq.Offset{77}) {
			t.Errorf("%+v", d)
		}
		if d := change("n3", deferral.Cancel, false, channel.Window{}, 2); d.Count != 0 || len(d.Missed) != 1 {
			t.Errorf("cancelled twice: %+v", d)
		}
		if d := change("n2", deferral.Advance, false, until(25)); d.Count != 2 {
			t.Errorf("%+v", d)
		}
		if d := change("n3", deferral.Cancel, false, until(45), 4); d.Count != 1 {
			t.Errorf("%+v", d)
		}
		for _, next := range []meta.NodeID{"n2", "n3"} {
			l.elect("t", 0, next)
			c = l.subscribe("t", "c", 0)
			var got []string
			for _, d := range c.takeSome(2) {
				got = append(got, fmt.Sprintf("%s %d", d.Body, d.Attempts))
			}
			c.idle()
			slices.Sort(got)
			if next == "n2" && !slices.Equal(got, []string{"in 20 1", "now 2"}) || next == "n3" && !slices.Equal(got, []string{"in 20 2", "now 3"}) && !slices.Equal(got, []string{"in 20 1", "now 2"}) {
				t.Errorf("led by %s: %q", next, got)
			}
			if s := l.leader("t", 0).Host.Lookup("t").Led(0).Part.Channel("c").Stats(); s.Deferred != 2 || s.InFlight != 2 {
				t.Errorf("led by %s: %+v", next, s.Counts)
			}
			c.Close()
		}
		if s := l.leader("t", 0).Host.Lookup("t").Led(0).Part.Channel("other").Stats(); s.Deferred != 5 {
			t.Errorf("the other channel: %+v", s.Counts)
		}
		for _, bad := range []struct {
			r    deferral.Change
			want error
		}{
			{deferral.Change{Topic: "t", Channel: "none", Verb: deferral.Cancel}, failure.ChannelNotFound},
			{deferral.Change{Topic: "none", Channel: "c", Verb: deferral.Cancel}, failure.TopicNotFound},
			{deferral.Change{Topic: "t", Channel: "c", Verb: "hasten"}, deferral.ErrUnknownVerb},
		} {
			if _, err := (operate.Deferrals{Node: l.leader("t", 0).Node}).Reschedule(ctx, bad.r); !errors.Is(err, bad.want) {
				t.Errorf("%+v: %v", bad.r, err)
			}
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := (operate.Deferrals{Node: l.leader("t", 0).Node}).Reschedule(gone, deferral.Change{Topic: "t", Channel: "c", Verb: deferral.Cancel}); err == nil {
			t.Error("went on for a caller that is gone")
		}
	})
}

// For a large position only changes are stored: the rest stays unchanged, whatever an operator
// does.
func TestBulkActsOnDeferredMessagesAffectNoOthers(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	ctx := t.Context()
	l.create("t", "n1", "n2", "n3")
	l.inSync("t", 0, 3)
	l.subscribe("t", "c", 0).Close()
	const n = 40_000
	for range n / 4000 {
		messages := make([]topic.Message, 4000)
		for i := range messages {
			messages[i] = topic.Message{Body: []byte("x"), Delay: time.Hour}
		}
		got := make(chan error, 1)
		l.leader("t", 0).Router.Publish(ctx, publish.Request{Topic: "t", Messages: messages, Done: func(r topic.Receipt) { got <- r.Err }})
		if err := <-got; err != nil {
			t.Fatal(err)
		}
	}
	flush := func() {
		if err := l.leader("t", 0).Host.Lookup("t").Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	named := func(verb deferral.Verb, offsets ...seq.Offset) {
		t.Helper()
		r := deferral.Change{Topic: "t", Channel: "c", Verb: verb, Named: map[int][]seq.Offset{0: offsets}}
		if done, err := (operate.Deferrals{Node: l.at("n2").Node}).Reschedule(ctx, r); err != nil || done[0].Count != len(offsets) {
			t.Fatalf("%+v, %v", done, err)
		}
	}
	left := channel.Counts{Depth: 2, Deferred: n - 6}
	is := func(when string) {
		t.Helper()
		l.eventually("what is left, "+when, func() bool { // a new leader learns the committed end from the others
			s := l.leader("t", 0).Host.Lookup("t").Led(0).Part.Channel("c").Stats()
			return s.Depth == left.Depth && s.Deferred == left.Deferred
		})
	}
	named(deferral.Cancel, 0, 7, n-1)
	named(deferral.Advance, 20_000, 1)
	if _, err := l.at("n3").Contents.FinishMessage(ctx, "t", "c", 0, 30_000); err != nil {
		t.Fatal(err)
	}
	flush()
	is("before")
	l.elect("t", 0, "n2")
	is("led by n2")
	l.stop("n2")
	l.start("n2")
	l.elect("t", 0, "n3")
	is("led by n3")
}

package broker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/policy"
)

// TestPlansSayWhatChangesDo plans each change, and then makes it: a plan changes nothing, is refused for the same
// reason, and has the same result.
func TestPlansSayWhatChangesDo(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2")
	ctx, b := t.Context(), l.at("n1")
	plans := operate.Planner{Node: b.Node}
	letters := policy.Policy{MaxAttempts: 3, OnExhausted: policy.DeadLetter}
	long := strings.Repeat("x", 55)
	create := func(c meta.CreateChannel) [2]func() (*meta.Topic, error) {
		c.Topic = "t"
		return [2]func() (*meta.Topic, error){
			func() (*meta.Topic, error) { return plans.PlanChannel(ctx, c) },
			func() (*meta.Topic, error) { return nil, b.Contents.Policies().CreateChannel(ctx, c) },
		}
	}
	patch := func(channel string, p policy.Patch) [2]func() (*meta.Topic, error) {
		c := meta.AlterChannel{Topic: "t", Channel: channel, Policy: &p}
		return [2]func() (*meta.Topic, error){
			func() (*meta.Topic, error) { return plans.PlanChannel(ctx, c) },
			func() (*meta.Topic, error) { return nil, b.Contents.Policies().AlterChannel(ctx, c) },
		}
	}
	topic := func(cfg meta.TopicConfig) [2]func() (*meta.Topic, error) {
		return [2]func() (*meta.Topic, error){
			func() (*meta.Topic, error) { return plans.PlanTopic(ctx, "t", cfg) },
			func() (*meta.Topic, error) { return b.Directory.CreateTopic(ctx, "t", cfg) },
		}
	}
	alter := func(change func(*meta.TopicConfig)) [2]func() (*meta.Topic, error) {
		return [2]func() (*meta.Topic, error){
			func() (*meta.Topic, error) { return plans.PlanAlter(ctx, "t", change) },
			func() (*meta.Topic, error) { return nil, b.Directory.AlterTopic(ctx, "t", change) },
		}
	}
	grow := func(total int) [2]func() (*meta.Topic, error) {
		return [2]func() (*meta.Topic, error){
			func() (*meta.Topic, error) { return plans.PlanPartitions(ctx, "t", total) },
			func() (*meta.Topic, error) { return nil, b.Directory.AddPartitions(ctx, "t", total) },
		}
	}
	for _, x := range []struct {
		what string
		do   [2]func() (*meta.Topic, error) // the plan, and the change
		want error
	}{
		{"no such topic", alter(func(*meta.TopicConfig) {}), failure.TopicNotFound},
		{"too many replicas", topic(meta.TopicConfig{Replicas: 3}), failure.TooFewNodes},
		{"a topic", topic(meta.TopicConfig{Partitions: 2, Replicas: 1, Ordered: true}), nil},
		{"the topic again", topic(meta.TopicConfig{Partitions: 2, Replicas: 1, Ordered: true}), nil},
		{"with other settings", topic(meta.TopicConfig{Partitions: 3, Replicas: 1}), failure.TopicExists},
		{"a setting", alter(func(c *meta.TopicConfig) { c.TTL = 1e9 }), nil},
		{"an invalid setting", alter(func(c *meta.TopicConfig) { c.TTL = -1 }), failure.InvalidConfig},
		{"replicas without nodes", alter(func(c *meta.TopicConfig) { c.Replicas = 3 }), failure.TooFewNodes},
		{"fewer partitions", grow(1), failure.InvalidConfig},
		{"more partitions", grow(3), nil},
		{"a channel", create(meta.CreateChannel{Channel: "c"}), nil},
		{"the channel again", create(meta.CreateChannel{Channel: "c", Policy: letters}), nil},
		{"an ephemeral channel with a filter", create(meta.CreateChannel{Channel: "e#ephemeral", Filter: `key == "a"`}), failure.InvalidConfig},
		{"dead letters without room for a name", create(meta.CreateChannel{Channel: long + "xxxxx", Policy: letters}), failure.InvalidConfig},
		{"a policy", patch("c", policy.Exactly(letters)), nil},
		{"a policy of no channel", patch("none", policy.Exactly(letters)), failure.ChannelNotFound},
		{"dead letters in the own topic", patch("c", policy.Patch{DeadLetterTopic: new("t")}), failure.InvalidConfig},
	} {
		was := l.store.Topic("t")
		planned, err := x.do[0]()
		if l.store.Topic("t") != was {
			t.Fatalf("%s: the plan has changed the topic", x.what)
		}
		_, done := x.do[1]()
		if !errors.Is(err, x.want) || !errors.Is(done, x.want) || (err == nil) != (done == nil) || err != nil && err.Error() != done.Error() {
			t.Errorf("%s: planned %v, done %v", x.what, err, done)
			continue
		}
		if err != nil {
			continue
		}
		is := l.store.Topic("t")
		if diff := cmp.Diff(is.Config, planned.Config, cmp.AllowUnexported(policy.Backoff{})); diff != "" || len(planned.Partitions) != len(is.Partitions) || len(planned.Channels) != len(is.Channels) {
			t.Errorf("%s: %d and %d partitions, %d and %d channels, %s", x.what, len(is.Partitions), len(planned.Partitions), len(is.Channels), len(planned.Channels), diff)
		}
		for name, c := range is.Channels {
			if p := planned.Channels[name]; p == nil || p.Order != c.Order || p.Policy != c.Policy {
				t.Errorf("%s: channel %s is %+v, planned %+v", x.what, name, c, p)
			}
		}
	}
	// Channels of a topic that does not exist yet.
	for _, c := range []struct {
		channel string
		want    error
	}{{"c", nil}, {"e#ephemeral", failure.InvalidConfig}, {long + "xx", failure.InvalidConfig}} {
		planned, err := plans.PlanTopic(ctx, "new", meta.TopicConfig{Ordered: true}, meta.CreateChannel{Topic: "new", Channel: "a"}, meta.CreateChannel{Topic: "new", Channel: c.channel, Policy: letters})
		if !errors.Is(err, c.want) || err == nil && planned.Channels["a"].Order != policy.Strict || l.store.Topic("new") != nil {
			t.Errorf("new topic with %s: %+v, %v", c.channel, planned, err)
		}
	}
}

// TestPlansAreRefusedForWhatRefusesChanges: the creation limit of the client, and the metadata's disk.
func TestPlansAreRefusedForWhatRefusesChanges(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2")
	b := l.at("n1")
	if _, err := b.Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	ctx := limit.NewCreations(2, time.Hour, slog.New(slog.DiscardHandler)).By(t.Context(), &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)})
	plans := operate.Planner{Node: b.Node}
	channels := []meta.CreateChannel{{Topic: "new", Channel: "a"}, {Topic: "new", Channel: "b"}}
	for range 5 { // a plan uses nothing up
		if _, err := plans.PlanTopic(ctx, "new", meta.TopicConfig{}, channels[:1]...); err != nil {
			t.Fatal(err)
		}
		if _, err := plans.PlanTopic(ctx, "new", meta.TopicConfig{}, channels...); !errors.Is(err, failure.TooManyCreated) {
			t.Fatalf("a topic and two channels: %v", err)
		}
	}
	for _, name := range []string{"c", "d"} {
		if err := b.Directory.CreateChannel(ctx, "t", name, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := plans.PlanChannel(ctx, meta.CreateChannel{Topic: "t", Channel: "e"}); !errors.Is(err, failure.TooManyCreated) {
		t.Errorf("a third channel: %v", err)
	}
	if _, err := plans.PlanChannel(ctx, meta.CreateChannel{Topic: "t", Channel: "c"}); err != nil {
		t.Errorf("an existing channel: %v", err)
	}
	full := directory.Plans{Of: b.Directory, Admits: func(context.Context, []meta.Command) error { return failure.MetadataDiskFull }}
	if _, err := full.Partitions(t.Context(), "t", 2); !errors.Is(err, failure.MetadataDiskFull) {
		t.Errorf("on a full disk: %v", err)
	}
}

// TestRestoreIsPlanned plans the restore of a deleted topic, and of one whose name another topic has.
func TestRestoreIsPlanned(t *testing.T) {
	l, _ := newGovernedLan(t, "n1", "n2")
	b, plans := l.at("n1"), operate.Planner{Node: l.at("n1").Node}
	if _, err := plans.PlanRestore(t.Context(), meta.RestoreTopic{Name: "t"}); !errors.Is(err, failure.NotInTrash) {
		t.Errorf("a topic that was never there: %v", err)
	}
	old, err := b.Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{Partitions: 2, Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Directory.DeleteTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if planned, err := plans.PlanRestore(t.Context(), meta.RestoreTopic{Name: "t"}); err != nil || len(planned.Partitions) != 2 || l.store.Topic("t") != nil {
		t.Errorf("a deleted topic: %+v, %v; there is %+v", planned, err, l.store.Topic("t"))
	}
	now, err := b.Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plans.PlanRestore(t.Context(), meta.RestoreTopic{Name: "t"}); !errors.Is(err, failure.NameTaken) {
		t.Errorf("beside another of the name: %v", err)
	}
	c := meta.RestoreTopic{Name: "t", Incarnation: old.Incarnation, Replaces: now.Incarnation}
	if planned, err := plans.PlanRestore(t.Context(), c); err != nil || len(planned.Partitions) != 2 || l.store.Topic("t").Incarnation != now.Incarnation {
		t.Errorf("instead of another: %+v, %v", planned, err)
	}
}

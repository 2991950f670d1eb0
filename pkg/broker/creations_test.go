package broker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// stranger returns the context of a client that may create burst topics and
// channels.
func stranger(t *testing.T, burst int) context.Context {
	t.Helper()
	c := limit.NewCreations(burst, time.Hour, slog.New(slog.DiscardHandler))
	return c.By(t.Context(), &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)})
}

// waysToUse are the ways by which clients use and create topics and channels.
func waysToUse(n *node) map[string]func(ctx context.Context, topic, channel string) error {
	return map[string]func(ctx context.Context, topic, channel string) error{
		"publish": func(ctx context.Context, name, _ string) error {
			done := make(chan error, 1)
			n.Router.Publish(ctx, publish.Request{
				Topic: name, Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte("x")}}, Done: func(r topic.Receipt) { done <- r.Err },
			})
			return <-done
		},
		"ensure": func(ctx context.Context, name, _ string) error { return n.Directory.EnsureTopic(ctx, name) },
		"create the topic": func(ctx context.Context, name, _ string) error {
			_, err := n.Directory.CreateTopic(ctx, name, meta.TopicConfig{})
			return err
		},
		"create the channel": func(ctx context.Context, _, channel string) error {
			return n.Directory.CreateChannel(ctx, "there", channel, false)
		},
		"subscribe": func(ctx context.Context, name, channel string) error {
			s, err := n.Consumers.Subscribe(ctx, consume.Subscribe{
				Topic: name, Channel: channel, Partition: host.AnyPartition, Client: &consumer{woken: make(chan struct{}, 1)}, MsgTimeout: time.Minute, Wake: func() {},
			})
			if err == nil {
				s.Close()
			}
			return err
		},
	}
}

func TestExistingTopicsNeedNoRightToCreate(t *testing.T) {
	n := newNode(t)
	n.subscribe("there", "c")
	n.subscribe("there", "c#ephemeral")
	n.subscribe("there#ephemeral", "c")
	ctx := stranger(t, 1)
	if _, err := limit.Create(ctx, 1); err != nil {
		t.Fatal(err)
	}
	for way, use := range waysToUse(n) {
		for _, there := range [][2]string{{"there", "c"}, {"there", "c#ephemeral"}, {"there#ephemeral", "c"}} {
			if err := use(ctx, there[0], there[1]); err != nil {
				t.Errorf("%s of %v: %v", way, there, err)
			}
		}
		for _, fresh := range []string{"fresh", "fresh#ephemeral"} {
			if err := use(ctx, fresh, fresh); !errors.Is(err, failure.TooManyCreated) {
				t.Errorf("%s of %s: %v", way, fresh, err)
			}
		}
	}
	if got := n.Directory.Topics(); len(got) != 2 {
		t.Errorf("there are %d topics", len(got))
	}
	if err := waysToUse(n)["subscribe"](ctx, "there", "fresh#ephemeral"); !errors.Is(err, failure.TooManyCreated) {
		t.Errorf("an ephemeral channel: %v", err)
	}
}

// TestEachCreationCountsOnce: a topic and a channel count as two. Using them again,
// or failing to create them, does not count.
func TestEachCreationCountsOnce(t *testing.T) {
	n := newNode(t)
	ctx := stranger(t, 4)
	use := waysToUse(n)
	for range 3 {
		for _, name := range []string{"there", "another"} {
			if err := use["subscribe"](ctx, name, "c"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := limit.Create(ctx, 1); !errors.Is(err, failure.TooManyCreated) {
		t.Fatalf("two topics with a channel each are less than four: %v", err)
	}
}

func TestKnownChannelsOfTopicDoNotCount(t *testing.T) {
	n := newNodeWith(t, func(o *Options) {
		o.KnownChannels = func(context.Context, string) ([]string, error) { return []string{"a", "b"}, nil }
	})
	if err := n.Directory.EnsureTopic(stranger(t, 1), "t"); err != nil {
		t.Fatal(err)
	}
	if got := len(n.meta.Topic("t").Channels); got != 2 {
		t.Errorf("the topic has %d channels", got)
	}
}

// TestRefusedCreationsDoNotCount: another client created it first, or the
// metadata refuses it.
func TestRefusedCreationsDoNotCount(t *testing.T) {
	n := newNode(t)
	n.subscribe("there", "c")
	ctx := stranger(t, 1)
	h := n.Host.Lookup("there")
	if _, err := n.Directory.ProposeNew(ctx, false, meta.CreateChannel{Topic: "there", Incarnation: h.Incarnation, Channel: "c"}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Directory.ProposeNew(ctx, false, meta.CreateChannel{Topic: "not there", Channel: "c"}); err == nil {
		t.Fatal("a channel of no topic is created")
	}
	if _, err := limit.Create(ctx, 1); err != nil {
		t.Error(err)
	}
}

// TestEphemeralChannelOfRemoteTopicCounts: the leader creates it, and does not know
// for which user. A channel with consumers on this node exists already.
func TestEphemeralChannelOfRemoteTopicCounts(t *testing.T) {
	m := newMesh(t, "n1", "n2")
	m.create("t", "n2")
	ctx := stranger(t, 2)
	subscribe := func(channel string) error {
		c := &consumer{t: t, woken: make(chan struct{}, 1)}
		s, err := m.nodes["n1"].Consumers.Subscribe(ctx, consume.Subscribe{
			Topic: "t", Channel: channel, Partition: host.AnyPartition, Client: c, MsgTimeout: time.Minute, Wake: c.wake,
		})
		if err == nil {
			t.Cleanup(s.Close)
		}
		return err
	}
	for _, channel := range []string{"a#ephemeral", "a#ephemeral", "b#ephemeral", "a#ephemeral"} {
		if err := subscribe(channel); err != nil {
			t.Fatalf("%s: %v", channel, err)
		}
	}
	if err := subscribe("c#ephemeral"); !errors.Is(err, failure.TooManyCreated) {
		t.Errorf("a third channel: %v", err)
	}
	if err := subscribe("b#ephemeral"); err != nil {
		t.Errorf("one that is there: %v", err)
	}
}

// A subscription that reaches no leader is charged for no channel, however often it is repeated.
func TestChannelThatNoLeaderMakesDoesNotCount(t *testing.T) {
	m := newMeshWith(t, func(o *Options) { o.PublishTimeout = 100 * time.Millisecond }, "n1", "n2")
	m.create("t", "n2")
	m.link("n1", "n2").refuse(func(uint8) error { return failure.NotLeading })
	ctx := stranger(t, 1)
	for range 3 {
		_, err := m.nodes["n1"].Consumers.Subscribe(ctx, consume.Subscribe{
			Topic: "t", Channel: "c#ephemeral", Partition: host.AnyPartition, Client: &consumer{t: t, woken: make(chan struct{}, 1)}, MsgTimeout: time.Minute, Wake: func() {},
		})
		if !errors.Is(err, failure.NotLeading) {
			t.Fatalf("without a leader: %v", err)
		}
	}
	if _, err := limit.Create(ctx, 1); err != nil {
		t.Error(err)
	}
}

package directory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// open returns the directory of a node that is a cluster of its own.
func open(t *testing.T, adapt func(*Options)) *Directory {
	t.Helper()
	return openOn(t, vfs.NewMem(), adapt)
}

// openOn is open on a disk of the test's choice.
func openOn(t *testing.T, disk vfs.FS, adapt func(*Options)) *Directory {
	t.Helper()
	store, err := raftstore.Open(raftstore.Options{InMemory: true, NodeID: "n1", Bootstrap: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.WaitLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	h, err := host.New(host.Options{
		Self: "n1", FS: disk, DataDir: "data", Meta: store, Observer: host.Deaf{}, Logger: log, Fatal: func(err error) { t.Error(err) },
	})
	if err == nil {
		err = h.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Exit()
		if err := errors.Join(h.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	o := Options{Self: "n1", Meta: store, Logger: log}
	if adapt != nil {
		adapt(&o)
	}
	return New(o, h)
}

// inBubble runs a test on a directory, in virtual time.
func inBubble(t *testing.T, adapt func(*Options), test func(t *testing.T, d *Directory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, open(t, adapt)) })
}

func TestRequestOverridesNodeDefaults(t *testing.T) {
	inBubble(t, func(o *Options) {
		o.TopicDefaults = meta.TopicConfig{Partitions: 3, RetentionAge: time.Hour, RetentionBytes: 1 << 30}
	}, func(t *testing.T, d *Directory) {
		got, err := d.CreateTopic(t.Context(), "t", meta.TopicConfig{Partitions: 2, Replicas: 1})
		if err != nil {
			t.Fatal(err)
		}
		if c := got.Config; len(got.Partitions) != 2 || c.RetentionAge != time.Hour || c.RetentionBytes != 1<<30 {
			t.Errorf("%d partitions, %+v", len(got.Partitions), c)
		}
	})
}

// A change that the metadata has is not reported as refused because the leader cannot follow it, and a
// channel whose start cannot be stored does not stand in the way of changes of others.
func TestUnappliedChangeIsNotRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfstest.NewFaulty(vfs.NewMem())
		d := openOn(t, disk, nil)
		if _, err := d.CreateTopic(t.Context(), "t", meta.TopicConfig{Partitions: 2, Replicas: 1}); err != nil {
			t.Fatal(err)
		}
		if err := d.CreateChannel(t.Context(), "t", "c", false); err != nil {
			t.Fatal(err)
		}
		disk.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind == vfs.OpWrite || op.Kind == vfs.OpPreallocate || op.Kind == vfs.OpCreate {
				return vfstest.Fault{Err: syscall.ENOSPC}
			}
			return vfstest.Fault{}
		})
		late := func(what string, err error) {
			t.Helper()
			if k := failure.Of(err); k != failure.NotApplied || fate.Of(err) != fate.Uncertain || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), `"c2"`) {
				t.Errorf("%s: %v, %v", what, k, err)
			}
		}
		pause := func(channel string) error {
			yes := true
			return d.Change(t.Context(), "t", meta.AlterChannel{Topic: "t", Channel: channel, Paused: &yes})
		}
		late("create", d.CreateChannel(t.Context(), "t", "c2", false))
		late("create again", d.CreateChannel(t.Context(), "t", "c2", false))
		late("pause c2", pause("c2"))
		if err := errors.Join(pause("c"), d.PauseTopic(t.Context(), "t", true)); err != nil {
			t.Errorf("another channel, and the topic: %v", err)
		}
		if c := d.host.Lookup("t").Led(0).Part.Channel("c"); !c.Stats().Paused {
			t.Error("c is not paused")
		}
		if _, err := d.CreateTopic(t.Context(), "new", meta.TopicConfig{}); failure.Of(err) != failure.NotApplied {
			t.Errorf("create a topic: %v", err)
		}
		disk.Decide(nil)
		if err := d.CreateChannel(t.Context(), "t", "c2", false); err != nil {
			t.Errorf("with space: %v", err)
		}
	})
}

func TestTopicIsCreatedOnce(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, d *Directory) {
		cfg := meta.TopicConfig{Partitions: 2, Replicas: 1}
		first, err := d.CreateTopic(t.Context(), "t", cfg)
		if err != nil {
			t.Fatal(err)
		}
		again, err := d.CreateTopic(t.Context(), "t", cfg)
		if err != nil || again.Incarnation != first.Incarnation {
			t.Errorf("the same once more: %v, %v", again, err)
		}
		cfg.Partitions = 3
		if _, err := d.CreateTopic(t.Context(), "t", cfg); !errors.Is(err, failure.TopicExists) || fate.Of(err) != fate.Refused {
			t.Errorf("with another configuration: %v", err)
		}
		if err := d.DeleteTopic(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Topic("t"); !errors.Is(err, failure.TopicNotFound) {
			t.Errorf("deleted: %v", err)
		}
		renewed, err := d.CreateTopic(t.Context(), "t", cfg)
		if err != nil || renewed.Incarnation <= first.Incarnation {
			t.Errorf("created again: %v, %v", renewed, err)
		}
	})
}

func TestInvalidNamesAreRefused(t *testing.T) {
	inBubble(t, func(o *Options) { o.AutoCreateTopics = true }, func(t *testing.T, d *Directory) {
		ctx := t.Context()
		if _, err := d.CreateTopic(ctx, "t", meta.TopicConfig{Replicas: 1}); err != nil {
			t.Fatal(err)
		}
		_, create := d.CreateTopic(ctx, "a b", meta.TopicConfig{})
		for what, test := range map[string]struct{ got, want error }{
			"create":                 {create, failure.InvalidTopic},
			"use":                    {d.EnsureTopic(ctx, ""), failure.InvalidTopic},
			"channel":                {d.CreateChannel(ctx, "t", "a b", false), failure.InvalidChannel},
			"channel of none":        {d.CreateChannel(ctx, "none", "c", false), failure.TopicNotFound},
			"alter none":             {d.AlterTopic(ctx, "none", func(*meta.TopicConfig) {}), failure.TopicNotFound},
			"delete none":            {d.DeleteTopic(ctx, "none"), failure.TopicNotFound},
			"partitions of none":     {d.AddPartitions(ctx, "none", 2), failure.TopicNotFound},
			"no more partitions":     {d.AddPartitions(ctx, "t", 1), failure.InvalidConfig},
			"too many partitions":    {d.AddPartitions(ctx, "t", 1<<20), failure.InvalidConfig},
			"more replicas than can": {d.AlterTopic(ctx, "t", func(c *meta.TopicConfig) { c.MinISR = 5 }), failure.InvalidConfig},
		} {
			if !errors.Is(test.got, test.want) || fate.Of(test.got) != fate.Refused {
				t.Errorf("%s: %v, want %v", what, test.got, test.want)
			}
		}
		if n := len(d.Topics()); n != 1 {
			t.Errorf("%d topics", n)
		}
	})
}

func TestUseCreatesTopicOnlyIfAllowed(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		inBubble(t, func(o *Options) { o.AutoCreateTopics = allowed }, func(t *testing.T, d *Directory) {
			if _, made := d.MadeOnFirstUse(); made != allowed {
				t.Errorf("allowed %v: made on first use %v", allowed, made)
			}
			err := d.EnsureTopic(t.Context(), "t")
			if allowed && err != nil || !allowed && !errors.Is(err, failure.TopicNotFound) {
				t.Errorf("allowed %v: %v", allowed, err)
			}
			if made := d.o.Meta.Topic("t") != nil; made != allowed {
				t.Errorf("allowed %v, made %v", allowed, made)
			}
		})
	}
}

func TestAutoCreatedTopicGetsChannelsFromLookup(t *testing.T) {
	failure := error(nil)
	inBubble(t, func(o *Options) {
		o.AutoCreateTopics = true
		o.KnownChannels = func(context.Context, string) ([]string, error) {
			return []string{"archive", "not valid", "passing#ephemeral"}, failure
		}
	}, func(t *testing.T, d *Directory) {
		// The client may create the topic alone; its channels are not counted.
		bounds := limit.NewCreations(1, time.Hour, slog.New(slog.DiscardHandler))
		if err := d.EnsureTopic(bounds.By(t.Context(), &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}), "t"); err != nil {
			t.Fatal(err)
		}
		if c := d.o.Meta.Topic("t").Channels; len(c) != 1 || c["archive"] == nil {
			t.Errorf("channels %v", c)
		}
		failure = errors.New("lookup is down")
		if err := d.EnsureTopic(t.Context(), "u"); err != nil {
			t.Errorf("a lookup that fails keeps a topic from being made: %v", err)
		}
	})
}

// An ordered topic promises order, whichever client creates its channels.
func TestChannelsOfAnOrderedTopicAreOrdered(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, d *Directory) {
		if _, err := d.CreateTopic(t.Context(), "t", meta.TopicConfig{Replicas: 1, Ordered: true}); err != nil {
			t.Fatal(err)
		}
		if err := d.CreateChannel(t.Context(), "t", "c", false); err != nil {
			t.Fatal(err)
		}
		if err := d.EnsureChannel(t.Context(), meta.CreateChannel{Topic: "t", Channel: "keys", Order: policy.ByKey}); err != nil {
			t.Fatal(err)
		}
		got, err := d.Topic("t")
		if err != nil || got.Channels["c"].Order != policy.Strict || got.Channels["keys"].Order != policy.ByKey {
			t.Errorf("%+v, %v", got.Channels, err)
		}
	})
}

// A creation counts for its client; one of an existing topic, or one that was
// refused, does not.
func TestOnlyCreationsCount(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, d *Directory) {
		bounds := limit.NewCreations(2, time.Hour, slog.New(slog.DiscardHandler))
		ctx := bounds.By(t.Context(), &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)})
		one := meta.TopicConfig{Replicas: 1}
		for range 5 { // each is refused, or there already
			if _, err := d.CreateTopic(ctx, "t", meta.TopicConfig{Replicas: 1, Partitions: 1}); err != nil {
				t.Fatal(err)
			}
			if err := d.CreateChannel(ctx, "none", "c", false); !errors.Is(err, failure.TopicNotFound) {
				t.Errorf("a channel of no topic: %v", err)
			}
		}
		if err := d.CreateChannel(ctx, "t", "c", false); err != nil {
			t.Errorf("the second thing is created: %v", err)
		}
		if _, err := d.CreateTopic(ctx, "u", one); !errors.Is(err, failure.TooManyCreated) {
			t.Errorf("the third is not: %v", err)
		}
		if _, err := d.CreateTopic(limit.Uncounted(ctx), "u", one); err != nil {
			t.Errorf("what no client asked for is counted: %v", err)
		}
	})
}

func TestEphemeralTopicIsDeletedWithLastChannel(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, d *Directory) {
		ctx := t.Context()
		for _, name := range []string{"passing#ephemeral", "kept"} {
			if _, err := d.CreateTopic(ctx, name, meta.TopicConfig{Replicas: 1}); err != nil {
				t.Fatal(err)
			}
			if err := d.CreateChannel(ctx, name, "c#ephemeral", false); err != nil {
				t.Fatal(err)
			}
			h := d.host.Lookup(name)
			if err := d.DropIfAbandoned(ctx, h); err != nil || d.o.Meta.Topic(name) == nil {
				t.Errorf("%s with a channel: %v", name, err)
			}
		}
		if _, err := d.CreateTopic(ctx, "bare#ephemeral", meta.TopicConfig{Replicas: 1}); err != nil {
			t.Fatal(err)
		}
		h := d.host.Lookup("bare#ephemeral")
		for range 2 { // a missing one is no error
			if err := d.DropIfAbandoned(ctx, h); err != nil || d.o.Meta.Topic("bare#ephemeral") != nil {
				t.Errorf("without a channel: %v", err)
			}
		}
	})
}

// A consumer that subscribed while an ephemeral topic was being deleted was disconnected as soon as it was served, or
// refused: the topic gets no channel until it is deleted, and the consumer waits for another one.
func TestEphemeralTopicGetsNoChannelWhileItIsDeleted(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, d *Directory) {
		ctx := t.Context()
		const name = "t#ephemeral"
		if _, err := d.CreateTopic(ctx, name, meta.TopicConfig{Replicas: 1}); err != nil {
			t.Fatal(err)
		}
		h := d.host.Lookup(name)
		for range 2 { // two consumers left its last two channels
			if !d.abandoned.begin(h) {
				t.Fatal("it has no channel")
			}
		}
		d.abandoned.end(h) // that deletion has found the topic deleted, and the other has not closed it here yet
		client := limit.NewCreations(1, time.Hour, slog.New(slog.DiscardHandler)).By(ctx, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)})
		for range 3 { // a subscription tries again, and is charged for nothing
			if err := d.CreateChannel(client, name, "c#ephemeral", false); !errors.Is(err, failure.TopicNotFound) {
				t.Errorf("a channel of a topic that is being deleted: %v", err)
			}
		}
		d.abandoned.end(h) // the deletion has failed
		if err := d.CreateChannel(client, name, "c#ephemeral", false); err != nil || d.abandoned.begin(h) {
			t.Errorf("after that: %v; abandoned with a channel: %v", err, d.abandoned.of)
		}
	})
}

// The metadata decides whether a durable channel comes first.
func TestEphemeralTopicStaysWithADurableChannel(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, d *Directory) {
		ctx := t.Context()
		const name = "t#ephemeral"
		if _, err := d.CreateTopic(ctx, name, meta.TopicConfig{Replicas: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.host.Propose(ctx, meta.CreateChannel{Topic: name, Channel: "c"}); err != nil { // this node has yet to follow it
			t.Fatal(err)
		}
		h := d.host.Lookup(name)
		if err := d.DropIfAbandoned(ctx, h); err != nil || d.o.Meta.Topic(name) == nil {
			t.Errorf("deleted with a channel: %v, %+v", err, d.o.Meta.Topic(name))
		}
	})
}

// stateOf is a state with nodes that are up, and those that are down.
func stateOf(up, down int) *meta.State {
	s, index := &meta.State{}, uint64(0)
	apply := func(c meta.Command) { index++; meta.ApplyAt(s, index, 0, c) }
	for i := range up + down {
		id := meta.NodeID(fmt.Sprint("n", i+1))
		apply(meta.NodeStarted{Node: meta.Node{ID: id}})
		if i >= up {
			apply(meta.SetNodeState{ID: id, State: meta.NodeDown})
		}
	}
	return s
}

func TestReplicasPreferNodesThatAreUp(t *testing.T) {
	d := &Directory{o: Options{Self: "n1"}}
	for _, tt := range []struct {
		name                     string
		topic                    string
		up, down                 int
		partitions, replicas, in int
		want                     []int // replicas of each partition; nil: refused
		downs                    int   // of the first partition's replicas, those that are down
	}{
		{"all up", "t", 3, 0, 2, 3, 2, []int{3, 3}, 0},
		{"one down, and none needed", "t", 3, 1, 1, 3, 2, []int{3}, 0},
		{"one down, and enough to publish", "t", 2, 1, 2, 3, 2, []int{3, 3}, 1},
		{"two down, and not enough to publish", "t", 1, 2, 1, 3, 2, nil, 0},
		{"fewer nodes than replicas", "t", 2, 0, 1, 3, 2, nil, 0},
		{"ephemeral stays here", "t#ephemeral", 3, 0, 4, 1, 1, []int{1, 1, 1, 1}, 0},
	} {
		got, err := placer{&d.o}.assign(stateOf(tt.up, tt.down), tt.topic, tt.partitions, tt.replicas, tt.in)
		if (err != nil) != (tt.want == nil) {
			t.Errorf("%s: %v, %v", tt.name, got, err)
			continue
		}
		var sizes []int
		for _, replicas := range got {
			sizes = append(sizes, len(replicas))
			if once := slices.Compact(slices.Sorted(slices.Values(replicas))); len(once) != len(replicas) {
				t.Errorf("%s: a node has two replicas: %v", tt.name, replicas)
			}
			if meta.IsEphemeral(tt.topic) && replicas[0] != "n1" {
				t.Errorf("%s: it is at %v", tt.name, replicas)
			}
		}
		if diff := cmp.Diff(tt.want, sizes); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		downs := 0
		for i := range tt.down {
			if len(got) > 0 && slices.Contains(got[0], meta.NodeID(fmt.Sprint("n", tt.up+i+1))) {
				downs++
			}
		}
		if downs != tt.downs {
			t.Errorf("%s: %d replicas at nodes that are down: %v", tt.name, downs, got)
		}
	}
}

func TestRemoteErrorIsAnAnswer(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{fmt.Errorf("node n2: %w", &peer.RemoteError{}), true},
		{context.DeadlineExceeded, false},
		{nil, false},
	} {
		if got := Answered(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}

// A topic that replaces a deleted one is hosted, although the data of that one cannot be removed.
func TestTopicIsHostedThoughOldDataStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfstest.NewFaulty(vfs.NewMem())
		d := openOn(t, disk, nil)
		ctx := t.Context()
		old, err := d.CreateTopic(ctx, "t", meta.TopicConfig{})
		if err == nil {
			err = d.DeleteTopic(ctx, "t")
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := d.CreateTopic(ctx, "t", meta.TopicConfig{RetentionTrash: meta.NoTrash})
		if err != nil {
			t.Fatal(err)
		}
		disk.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind == vfs.OpRename {
				return vfstest.Fault{Err: syscall.EIO}
			}
			return vfstest.Fault{}
		})
		// The command alone, as another node sees it.
		if _, err := d.o.Meta.Propose(ctx, meta.RestoreTopic{Name: "t", Incarnation: old.Incarnation, Replaces: again.Incarnation}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if h := d.host.Lookup("t"); h == nil || h.Incarnation != old.Incarnation || h.Led(0) == nil {
			t.Errorf("hosts %+v", h)
		}
		disk.Decide(nil)
	})
}

// If the topic of a publish cannot be created or opened, nothing was published.
func TestUseOfTopicThatCannotBeOpenedIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfstest.NewFaulty(vfs.NewMem())
		d := openOn(t, disk, func(o *Options) { o.AutoCreateTopics = true })
		disk.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind == vfs.OpCreate {
				return vfstest.Fault{Err: syscall.EMFILE}
			}
			return vfstest.Fault{}
		})
		if err := d.EnsureTopic(t.Context(), "t"); fate.Of(err) != fate.Refused || failure.OfPublish(err) != failure.PublishRefused {
			t.Errorf("%v: %v", err, failure.OfPublish(err))
		}
		disk.Decide(nil)
	})
}

// starting is the connection to a node that starts: its first calls are refused.
type starting struct {
	refusals int
	answered bool
}

func (s *starting) Go(meta.NodeID, uint8, [][]byte, func([]byte, error)) {}

func (s *starting) Call(context.Context, meta.NodeID, uint8, [][]byte) ([]byte, error) {
	if s.refusals > 0 {
		s.refusals--
		return nil, errors.New("not connected")
	}
	s.answered = true
	return nil, nil
}

// The creation of a topic ends when each leader knows the topic, also one whose node was starting.
func TestNewTopicWaitsForLeaderThatStarts(t *testing.T) {
	n2 := &starting{refusals: 3}
	inBubble(t, func(o *Options) { o.Calls.Remote = n2 }, func(t *testing.T, d *Directory) {
		for _, id := range []meta.NodeID{"n1", "n2"} {
			if _, err := d.o.Meta.Propose(t.Context(), meta.NodeStarted{Node: meta.Node{ID: id, Levels: level.Supported()}}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.CreateTopic(t.Context(), "t", meta.TopicConfig{Partitions: 2, Replicas: 1}); err != nil {
			t.Fatal(err)
		}
		if !n2.answered {
			t.Error("the topic is made, and a leader does not know it")
		}
		n2.refusals = 1 << 30
		began := time.Now()
		if _, err := d.CreateTopic(t.Context(), "u", meta.TopicConfig{Partitions: 2, Replicas: 1}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("a leader that does not answer delays a new topic by %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), convergeRetry/2)
		defer cancel()
		began = time.Now()
		d.leaders.spread(ctx, "u", 0)
		if took := time.Since(began); took > convergeRetry/2 {
			t.Errorf("a request that has ended waits for a leader for %v", took)
		}
	})
}

// The first node of a new cluster serves a moment before the others register.
func TestNewTopicWaitsForNodesThatRegister(t *testing.T) {
	inBubble(t, func(o *Options) { o.Calls.Remote = &starting{} }, func(t *testing.T, d *Directory) {
		start := func(id meta.NodeID) {
			if _, err := d.o.Meta.Propose(t.Context(), meta.NodeStarted{Node: meta.Node{ID: id, Levels: level.Supported()}}); err != nil {
				t.Error(err)
			}
		}
		two := func(name string) (*meta.Topic, time.Duration, error) {
			began := time.Now()
			topic, err := d.CreateTopic(t.Context(), name, meta.TopicConfig{Replicas: 2})
			return topic, time.Since(began), err
		}
		start("n1")
		if _, took, err := two("t"); !errors.Is(err, failure.TooFewNodes) || took > 0 {
			t.Errorf("without another member: %v after %v", err, took)
		}
		if err := d.o.Meta.Members().AddNonvoter(t.Context(), "n2", "127.0.0.1:1"); err != nil {
			t.Fatal(err)
		}
		if _, took, err := two("t"); !errors.Is(err, failure.TooFewNodes) || took != registrationTimeout {
			t.Errorf("a member that does not register: %v after %v", err, took)
		}
		time.AfterFunc(registrationTimeout/2, func() { start("n2") })
		if topic, _, err := two("t"); err != nil || len(topic.Partitions[0].Replicas) != 2 {
			t.Errorf("created %+v, %v", topic, err)
		}
		if _, took, err := two("u"); err != nil || took > time.Second {
			t.Errorf("all are registered: %v after %v", err, took)
		}
	})
}

// broken is the connection to a node that cannot apply the metadata.
type broken struct{}

func (broken) Go(meta.NodeID, uint8, [][]byte, func([]byte, error)) {}

func (broken) Call(context.Context, meta.NodeID, uint8, [][]byte) ([]byte, error) {
	return nil, forward.ToRemote(errors.New("its disk is broken"))
}

// Clients create topics, for example by SUB while another deletes them, as fast as they can.
func TestLateLeadersDoNotFillTheLog(t *testing.T) {
	var said bytes.Buffer
	inBubble(t, func(o *Options) {
		o.Calls.Remote, o.Logger = broken{}, slog.New(slog.NewTextHandler(&said, nil))
	}, func(t *testing.T, d *Directory) {
		for _, id := range []meta.NodeID{"n1", "n2"} {
			if _, err := d.o.Meta.Propose(t.Context(), meta.NodeStarted{Node: meta.Node{ID: id, Levels: level.Supported()}}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 50 {
			if _, err := d.CreateTopic(t.Context(), fmt.Sprint("t", i), meta.TopicConfig{Partitions: 2, Replicas: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(said.String(), "leader has not applied the metadata yet"); n != 1 {
			t.Errorf("%d lines in a moment:\n%s", n, said.String())
		}
	})
}

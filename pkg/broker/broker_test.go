package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a single-node broker with its data on a disk in memory, and its
// metadata on a real disk.
type node struct {
	*Broker
	t    testing.TB
	fs   vfs.FS
	dir  string
	meta *raftstore.Store

	change func(*Options) // of the defaults; nil: none
}

func newNode(t *testing.T) *node { return newNodeWith(t, nil) }

// newNodeWith is newNode with options of its own.
func newNodeWith(t *testing.T, change func(*Options)) *node {
	n := &node{t: t, fs: vfs.NewMem(), dir: t.TempDir(), change: change}
	n.start()
	t.Cleanup(n.stop)
	return n
}

func (n *node) start() {
	n.t.Helper()
	ctx := n.t.Context()
	var err error
	if n.meta, err = raftstore.Open(raftstore.Options{Dir: n.dir, NodeID: "n1", Bootstrap: true, ReserveBytes: -1}); err != nil {
		n.t.Fatal(err)
	}
	if err := n.meta.WaitLeader(ctx); err != nil {
		n.t.Fatal(err)
	}
	o := Options{
		Options: host.Options{Self: "n1", FS: n.fs, DataDir: "data", Meta: n.meta, TickInterval: time.Millisecond}, AutoCreateTopics: true,
	}
	if n.change != nil {
		n.change(&o)
	}
	n.Broker, err = Open(ctx, o)
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) stop() {
	if err := errors.Join(n.Close(), n.meta.Close()); err != nil {
		n.t.Error(err)
	}
}

func (n *node) restart() {
	n.t.Helper()
	n.stop()
	n.start()
}

// publish publishes and waits.
func (n *node) publish(p publish.Request) topic.Receipt {
	n.t.Helper()
	got := make(chan topic.Receipt, 1)
	p.Done = func(r topic.Receipt) { got <- r }
	n.Router.Publish(n.t.Context(), p)
	return <-got
}

func (n *node) put(name string, bodies ...string) {
	n.t.Helper()
	p := publish.Request{Topic: name, Partition: host.AnyPartition}
	for _, b := range bodies {
		p.Messages = append(p.Messages, topic.Message{Body: []byte(b)})
	}
	if r := n.publish(p); r.Err != nil {
		n.t.Fatalf("publish: %v", r.Err)
	}
}

// consumer is a subscription with a test as its client.
type consumer struct {
	*consume.Subscription
	t     testing.TB
	woken chan struct{}
	ended atomic.Pointer[error]

	mu         sync.Mutex // guards unfinished
	unfinished map[seq.MessageID]error
}

func (c *consumer) Unfinished(id seq.MessageID, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unfinished == nil {
		c.unfinished = map[seq.MessageID]error{}
	}
	c.unfinished[id] = err
}

// told returns the error for a message that the consumer assumed to be finished.
func (c *consumer) told(id seq.MessageID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unfinished[id]
}

func (c *consumer) ClientStats() stats.Client {
	return stats.Client{Consumer: api.Consumer{ClientID: "test"}}
}
func (c *consumer) Disconnect(err error) { c.ended.Store(&err); c.wake() }
func (c *consumer) wake()                { signal.Poke(c.woken) }

func (n *node) subscribe(name, channel string, change ...func(*consume.Subscribe)) *consumer {
	n.t.Helper()
	c := &consumer{t: n.t, woken: make(chan struct{}, 1)}
	r := consume.Subscribe{Topic: name, Channel: channel, Partition: host.AnyPartition, Client: c, MsgTimeout: time.Minute, Wake: c.wake}
	for _, f := range change {
		f(&r)
	}
	s, err := n.Consumers.Subscribe(n.t.Context(), r)
	if err != nil {
		n.t.Fatal(err)
	}
	c.Subscription = s
	c.SetReady(1000)
	n.t.Cleanup(s.Close)
	return c
}

// take waits for k messages, finishes them, and returns their bodies, sorted.
func (c *consumer) take(k int) string {
	c.t.Helper()
	var bodies []string
	deadline := time.After(patience)
	for len(bodies) < k {
		var ids []topic.Delivery
		if _, err := c.Take(time.Now(), k-len(bodies), func(d *topic.Delivery) error {
			bodies = append(bodies, string(d.Body))
			ids = append(ids, *d)
			return nil
		}); err != nil {
			c.t.Fatal(err)
		}
		for _, d := range ids {
			if err := c.Finish(d.ID); err != nil {
				c.t.Fatal(err)
			}
		}
		if len(ids) > 0 {
			continue
		}
		select {
		case <-c.woken:
		case <-deadline:
			c.t.Fatalf("got only %d of %d messages: %q", len(bodies), k, bodies)
		}
	}
	slices.Sort(bodies)
	return strings.Join(bodies, " ")
}

func TestPublishCreatesTheTopicAndSubscribeTheChannel(t *testing.T) {
	n := newNode(t)
	n.put("t", "a", "b")
	if got := n.subscribe("t", "c").take(2); got != "a b" {
		t.Errorf("got %q", got)
	}
}

func TestWithoutAutoCreationAMissingTopicIsRefused(t *testing.T) {
	n := newNode(t)
	if _, err := n.meta.Propose(t.Context(), meta.SetSettings{Values: map[string]string{meta.SettingAutoCreateTopics: "false"}}); err != nil {
		t.Fatal(err)
	}
	r := n.publish(publish.Request{Topic: "t", Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte("x")}}})
	if !errors.Is(r.Err, failure.TopicNotFound) {
		t.Errorf("publish: %v", r.Err)
	}
}

func TestMessagesAndPositionsSurviveARestart(t *testing.T) {
	n := newNode(t)
	c := n.subscribe("t", "c")
	n.put("t", "a", "b", "c")
	c.take(2)
	n.restart()
	if got := n.subscribe("t", "c").take(1); got != "c" {
		t.Errorf("after the restart: %q", got)
	}
	tt, err := n.Directory.Topic("t")
	if err != nil {
		t.Fatal(err)
	}
	if e := tt.Partitions[0].Epoch; e != 2 {
		t.Errorf("epoch %d after one restart, want 2", e)
	}
}

func TestOneSubscriptionServesAllPartitions(t *testing.T) {
	n := newNode(t)
	if _, err := n.Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	c := n.subscribe("t", "c")
	partitions := map[int]bool{}
	for i := range 9 {
		r := n.publish(publish.Request{Topic: "t", Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte(fmt.Sprint(i))}}})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		partitions[r.Partition] = true
	}
	if len(partitions) != 3 {
		t.Errorf("round robin used %d partitions of 3", len(partitions))
	}
	if got := c.take(9); got != "0 1 2 3 4 5 6 7 8" {
		t.Errorf("got %q", got)
	}
}

func TestKeyStaysInItsPartition(t *testing.T) {
	n := newNode(t)
	if _, err := n.Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	var first topic.Receipt
	for i := range 5 {
		r := n.publish(publish.Request{Topic: "t", Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte("x"), Key: []byte("k")}}})
		if i == 0 {
			first = r
		}
		if r.Err != nil || r.Partition != first.Partition {
			t.Fatalf("receipt %+v after %+v", r, first)
		}
	}
}

func TestAddedPartitionsReachExistingConsumers(t *testing.T) {
	n := newNode(t)
	c := n.subscribe("t", "c")
	defer c.Close()
	if err := n.Directory.AddPartitions(t.Context(), "t", 3); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		n.put("t", fmt.Sprint(i))
	}
	if got := c.take(6); got != "0 1 2 3 4 5" {
		t.Errorf("got %q", got)
	}
	if why := c.ended.Load(); why != nil {
		t.Errorf("the consumer was disconnected: %v", *why)
	}
	n.restart()
	if tt, _ := n.Directory.Topic("t"); len(tt.Partitions) != 3 {
		t.Errorf("%d partitions after a restart", len(tt.Partitions))
	}
}

func TestDeletedTopicFreesItsName(t *testing.T) {
	n := newNode(t)
	n.put("t", "old")
	c := n.subscribe("t", "c")
	if err := n.Directory.DeleteTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if c.ended.Load() == nil {
		t.Error("the consumer was not told")
	}
	if err := n.Directory.DeleteTopic(t.Context(), "t"); !errors.Is(err, failure.TopicNotFound) {
		t.Errorf("deleting it again: %v", err)
	}
	n.put("t", "new")
	if got := n.subscribe("t", "c").take(1); got != "new" {
		t.Errorf("the new topic delivers %q", got)
	}
}

func TestTopicIsDeletedAndCreatedUnderLoad(t *testing.T) {
	n := newNode(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				got := make(chan error, 1)
				n.Router.Publish(context.Background(), publish.Request{
					Topic: "t", Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte("x")}},
					Done: func(r topic.Receipt) { got <- r.Err },
				})
				<-got
			}
		})
	}
	for range 30 {
		if err := n.Directory.DeleteTopic(t.Context(), "t"); err != nil && !errors.Is(err, failure.TopicNotFound) {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	n.put("t", "last")
}

func TestRecreatedChannelStartsAtEnd(t *testing.T) {
	n := newNode(t)
	n.subscribe("t", "keep")
	n.subscribe("t", "c")
	n.put("t", "a")
	if err := n.Contents.DeleteChannel(t.Context(), "t", "c"); err != nil {
		t.Fatal(err)
	}
	n.restart()
	if got := n.Node.TopicStats("t", "", false)[0].Channels; len(got) != 1 || got[0].Name != "keep" {
		t.Fatalf("channels after the restart: %+v", got)
	}
	c := n.subscribe("t", "c")
	n.put("t", "b")
	if got := c.take(1); got != "b" {
		t.Errorf("got %q", got)
	}
}

func TestEphemeralChannelIsDeletedWithLastConsumer(t *testing.T) {
	n := newNode(t)
	a, b := n.subscribe("t", "e#ephemeral"), n.subscribe("t", "e#ephemeral")
	a.Close()
	if got := n.Node.TopicStats("t", "", false)[0].Channels; len(got) != 1 {
		t.Fatalf("%d channels with one consumer left", len(got))
	}
	b.Close()
	if got := n.Node.TopicStats("t", "", false)[0].Channels; len(got) != 0 {
		t.Fatalf("%d channels with no consumer left", len(got))
	}
}

func TestEphemeralTopicLeavesNoFiles(t *testing.T) {
	n := newNode(t)
	c := n.subscribe("t#ephemeral", "c")
	n.put("t#ephemeral", "a")
	if got := c.take(1); got != "a" {
		t.Errorf("got %q", got)
	}
	if names, err := n.fs.ReadDir("data/topics"); err == nil && len(names) > 0 {
		t.Errorf("files of an ephemeral topic: %v", names)
	}
	if err := n.Contents.DeleteChannel(t.Context(), "t#ephemeral", "c"); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Directory.Topic("t#ephemeral"); !errors.Is(err, failure.TopicNotFound) {
		t.Errorf("the topic is still there: %v", err)
	}
}

func TestPausedFlagsSurviveARestart(t *testing.T) {
	n := newNode(t)
	n.subscribe("t", "c")
	if err := errors.Join(n.Directory.PauseTopic(t.Context(), "t", true), n.Contents.PauseChannel(t.Context(), "t", "c", true)); err != nil {
		t.Fatal(err)
	}
	n.put("t", "a")
	n.restart()
	s := n.Node.TopicStats("t", "", false)[0]
	if !s.Paused || !s.Channels[0].Paused || s.Depth != 1 || s.Channels[0].Depth != 0 {
		t.Fatalf("stats after the restart: %+v", s)
	}
	if err := errors.Join(n.Directory.PauseTopic(t.Context(), "t", false), n.Contents.PauseChannel(t.Context(), "t", "c", false)); err != nil {
		t.Fatal(err)
	}
	if got := n.subscribe("t", "c").take(1); got != "a" {
		t.Errorf("got %q", got)
	}
}

func TestReadyBoundsWhatIsInFlight(t *testing.T) {
	n := newNode(t)
	c := n.subscribe("t", "c")
	c.SetReady(2)
	n.put("t", "a", "b", "c", "d")
	var got []topic.Delivery
	take := func() int {
		k, err := c.Take(time.Now(), 100, func(d *topic.Delivery) error { got = append(got, *d); return nil })
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	if k := take(); k != 2 {
		t.Fatalf("%d delivered at RDY 2", k)
	}
	if k := take(); k != 0 {
		t.Fatalf("%d more delivered with 2 in flight", k)
	}
	if err := c.Finish(got[0].ID); err != nil {
		t.Fatal(err)
	}
	if k := take(); k != 1 {
		t.Fatalf("%d delivered after one FIN", k)
	}
	c.StopDelivery()
	if err := c.Finish(got[1].ID); err != nil {
		t.Fatal(err)
	}
	if k := take(); k != 0 {
		t.Fatalf("%d delivered after StopDelivery", k)
	}
}

func TestForeignIDsAreRefused(t *testing.T) {
	n := newNode(t)
	c := n.subscribe("t", "c")
	for _, id := range []uint64{0, 77, 3 << 50, 1 << 62} {
		if err := c.Finish(seq.MessageID(id)); !errors.Is(err, failure.NotInFlight) {
			t.Errorf("FIN %x: %v", id, err)
		}
	}
}

func TestMaxChannelConsumers(t *testing.T) {
	n := newNodeWith(t, func(o *Options) { o.MaxChannelConsumers = 1 })
	n.subscribe("t", "c")
	_, err := n.Consumers.Subscribe(t.Context(), consume.Subscribe{Topic: "t", Channel: "c", Partition: host.AnyPartition, Client: &consumer{}, Wake: func() {}})
	if !errors.Is(err, failure.TooManyConsumers) {
		t.Errorf("a second consumer: %v", err)
	}
}

func TestExitingNodeRefusesPublishes(t *testing.T) {
	n := newNode(t)
	n.put("t", "a")
	n.Host.Exit()
	if r := n.publish(publish.Request{Topic: "t", Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte("x")}}}); !errors.Is(r.Err, failure.ShuttingDown) {
		t.Errorf("publish: %v", r.Err)
	}
}

func TestAlteredLimitIsEnforced(t *testing.T) {
	n := newNode(t)
	n.put("t", "a")
	if err := n.Directory.AlterTopic(t.Context(), "t", func(c *meta.TopicConfig) { c.MaxMessage = 3 }); err != nil {
		t.Fatal(err)
	}
	if r := n.publish(publish.Request{Topic: "t", Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte("four")}}}); !errors.Is(r.Err, failure.MessageTooBig) {
		t.Errorf("publish: %v", r.Err)
	}
	for _, size := range []int{topic.MaxHeader + 1, 1<<16 + 10} { // the second one's length ends as 10 in two bytes
		r := n.publish(publish.Request{Topic: "t", Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte("x"), Header: make([]byte, size)}}})
		if !errors.Is(r.Err, failure.MessageTooBig) {
			t.Errorf("publish with a header of %d bytes: %v", size, r.Err)
		}
	}
	n.put("t", "abc")
}

func wantRefusal(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A topic with a dot segment as its name can be deleted, but not created by any
// kind of request.
func TestDotSegmentsCannotBeMade(t *testing.T) {
	n := newNode(t)
	n.put("t", "a")
	ctx := t.Context()
	for _, name := range []string{".", ".."} {
		_, err := n.Directory.CreateTopic(ctx, name, meta.TopicConfig{})
		wantRefusal(t, err, failure.InvalidTopic)
		wantRefusal(t, n.Directory.EnsureTopic(ctx, name), failure.InvalidTopic)
		wantRefusal(t, n.Directory.CreateChannel(ctx, "t", name, false), failure.InvalidChannel)
		_, err = n.Consumers.Subscribe(ctx, consume.Subscribe{Topic: "t", Channel: name, Partition: host.AnyPartition})
		wantRefusal(t, err, failure.InvalidChannel)
		for _, c := range []meta.Command{ // as an earlier version did
			meta.CreateTopic{Name: name, Config: meta.TopicConfig{}.WithDefaults(1, false), Assignment: [][]meta.NodeID{{"n1"}}},
			meta.CreateChannel{Topic: "t", Channel: name, Incarnation: n.meta.Topic("t").Incarnation},
		} {
			if r, err := n.meta.Propose(ctx, c); err != nil || r.Err != nil {
				t.Fatal(err, r.Err)
			}
		}
		for what, err := range map[string]error{
			"topic " + name: n.Directory.DeleteTopic(ctx, name), "channel " + name: n.Contents.DeleteChannel(ctx, "t", name),
		} {
			if err != nil {
				t.Errorf("delete %s: %v", what, err)
			}
		}
		if n.meta.Topic(name) != nil || n.meta.Topic("t") == nil || len(n.meta.Topic("t").Channels) > 0 {
			t.Errorf("%q: there are the topics %v", name, n.meta.Topics())
		}
	}
}

func TestHealthOfHealthyNode(t *testing.T) {
	n := newNode(t)
	if h := n.Node.Health(); !h.Healthy || h.Degraded || len(h.Reasons) != 0 {
		t.Errorf("health %+v", h)
	}
	c := n.Operator.Cluster()
	if c.ClusterID == "" || c.Controller != "n1" || len(c.Nodes) != 1 || c.Nodes[0].State != "up" {
		t.Errorf("cluster %+v", c)
	}
}

func TestPeekAndDigest(t *testing.T) {
	n := newNode(t)
	n.subscribe("t", "c")
	n.put("t", "a", "b")
	seen, err := n.Contents.Peek(t.Context(), operate.Peek{Topic: "t", Channel: "c", Partition: host.AnyPartition, Max: 5})
	if err != nil || len(seen) != 2 || string(seen[1].Body) != "b" || seen[0].State != api.PeekReady {
		t.Errorf("peek: %+v, %v", seen, err)
	}
	d, err := n.Contents.Digest(t.Context(), "t")
	if err != nil || len(d) != 1 || d[0].CommittedEnd != 2 || d[0].Digests["n1"] == "" {
		t.Errorf("digest: %+v, %v", d, err)
	}
}

func TestDataWithoutMetadataIsKeptAndReported(t *testing.T) {
	n := newNode(t)
	n.put("t", "a")
	n.stop()
	if err := n.fs.Rename("data/topics/"+firstDir(t, n.fs), "data/topics/t.4000000000"); err != nil {
		t.Fatal(err)
	}
	n.start()
	if h := n.Node.Health(); !h.Degraded || h.Reasons[0].Code != "stray_data" {
		t.Errorf("health %+v", h)
	}
	if got := firstDir(t, n.fs); got != "t.4000000000" {
		t.Errorf("the data is gone: %q", got)
	}
}

func firstDir(t *testing.T, fs vfs.FS) string {
	t.Helper()
	names, err := fs.ReadDir("data/topics")
	if err != nil || len(names) == 0 {
		t.Fatalf("%v, %v", names, err)
	}
	return names[0]
}

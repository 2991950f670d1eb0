package publish

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestStraysEndSoonerIfLeaderHung has a publish in progress at a node that leads no longer, and
// that answered another publish before.
func TestStraysEndSoonerIfLeaderHung(t *testing.T) {
	for _, test := range []struct{ silent, grace time.Duration }{
		{0, strayGrace},
		{hungAfter - 1, strayGrace},
		{hungAfter, hungGrace},
		{time.Minute, hungGrace},
	} {
		began := time.Now()
		x := &queuedPublish{done: func(topic.Receipt) {}}
		o := &queue{all: &queues{}, target: "n1", flying: map[*queuedPublish]struct{}{x: {}}, answered: began}
		now := began.Add(test.silent)
		if strays, again := o.popStraysLocked(now, "n1"); strays != nil || again >= 0 {
			t.Errorf("%v: %d strays while n1 leads, again after %v", test.silent, len(strays), again)
		}
		if strays, again := o.popStraysLocked(now, "n2"); strays != nil || again != test.grace {
			t.Errorf("%v: %d strays at once, again after %v", test.silent, len(strays), again)
		}
		if strays, again := o.popStraysLocked(now.Add(test.grace-1), "n2"); strays != nil || again != 1 {
			t.Errorf("%v: %d strays too early, again after %v", test.silent, len(strays), again)
		}
		if strays, _ := o.popStraysLocked(now.Add(test.grace), "n2"); len(strays) != 1 || !x.givenUp {
			t.Errorf("%v: %d strays", test.silent, len(strays))
		}
	}
}

func TestRetryPauseResetsOnMetadataChange(t *testing.T) {
	before, after := &meta.Topic{}, &meta.Topic{}
	var o queue
	for i, c := range []struct {
		seen *meta.Topic
		want time.Duration
	}{
		{before, 2},
		{before, 4},
		{before, 8},
		{before, 16},
		{before, 32},
		{before, 50},
		{before, 50},
		{after, 2},
		{after, 4},
	} {
		o.round++
		o.delayLocked(c.seen)
		o.delayLocked(c.seen) // another of the same round
		if want := c.want * time.Millisecond; o.pause != want {
			t.Errorf("refusal %d: a pause of %v, want %v", i, o.pause, want)
		}
	}
}

// TestPublishWaitsForQueuedPublishesToThisNode has a forward queue that is being drained into this
// node's own term. New publishes go to the term, too, after the queued ones.
func TestPublishWaitsForQueuedPublishesToThisNode(t *testing.T) {
	for name, c := range map[string]struct {
		target meta.NodeID
		waits  bool
	}{"to this node": {"n1", true}, "to another": {"n2", false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := alone(t, "t")
				synctest.Wait() // a visit of the queues that has begun would end the idle one
				o, err := n.queues.queue(meta.PartitionID{Topic: "t", Incarnation: n.host.Lookup("t").Incarnation, Partition: 0})
				if err != nil {
					t.Fatal(err)
				}
				o.mu.Lock()
				o.target, o.sending = c.target, true
				o.mu.Unlock()
				got := make(chan topic.Receipt, 1)
				published := make(chan struct{})
				go func() {
					defer close(published)
					n.Publish(t.Context(), Request{
						Topic: "t", Messages: []topic.Message{{Body: []byte("x")}}, Done: func(r topic.Receipt) { got <- r },
					})
				}()
				synctest.Wait()
				select {
				case <-published:
					if c.waits {
						t.Error("a publish went behind what is on its way, want it to wait")
					}
				default:
					if !c.waits {
						t.Error("a publish waits for what is on its way to another node")
					}
				}
				o.mu.Lock()
				if kept := len(o.waiting); kept > 0 == c.waits {
					t.Errorf("%d publishes wait in the forward queue", kept)
				}
				o.sending = false
				o.endLocked()
				o.mu.Unlock()
				o.all.poke()
				<-published
				if r := <-got; r.Err != nil || r.First != 0 {
					t.Errorf("the publish got %+v", r)
				}
				synctest.Wait()
				if partitions, bytes := n.Waiting(); partitions > 0 || bytes > 0 {
					t.Errorf("%d bytes wait for %d partitions at the end", bytes, partitions)
				}
			})
		})
	}
}

// alone returns the router of a single-node cluster that leads a topic.
func alone(t *testing.T, name string) *Router {
	t.Helper()
	store, err := raftstore.Open(raftstore.Options{InMemory: true, NodeID: "n1", Bootstrap: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.WaitLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
	h, err := host.New(host.Options{
		Self: "n1", FS: vfs.NewMem(), DataDir: "data", Meta: store, Observer: host.Deaf{}, Logger: slog.New(slog.DiscardHandler), Fatal: func(err error) { t.Error(err) },
	})
	if err == nil {
		err = h.Open(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	d := directory.New(directory.Options{Self: "n1", Meta: store, Logger: slog.New(slog.DiscardHandler)}, h)
	if _, err := d.CreateTopic(t.Context(), name, meta.TopicConfig{Replicas: 1}); err != nil {
		t.Fatal(err)
	}
	tasks := &fan.Group{}
	r := New(Options{Self: "n1", Meta: store, PublishTimeout: host.DefaultPublishTimeout, Observer: host.Deaf{}}, h, d, tasks)
	ctx, end := context.WithCancel(t.Context())
	tasks.Go(func() { r.Run(ctx) })
	t.Cleanup(func() {
		end()
		tasks.Close()
		h.Exit()
		if err := errors.Join(h.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestLeaderWithoutDedupWindowIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := alone(t, "t")
		if !r.queues.passing(meta.PartitionID{Topic: "t", Incarnation: r.host.Lookup("t").Incarnation, Partition: 0}, failure.NoWindow) {
			t.Error("it is not tried again")
		}
	})
}

// TestReturnedPublishesAreSentAgainInOrder: a round may be refused in any order, and publishes that were never sent come
// after it.
func TestReturnedPublishesAreSentAgainInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, "t")
		var tasks fan.Group
		defer tasks.Close()
		s := newQueues(&n.o, n.host, tasks.Go) // nothing retries them by itself
		key := meta.PartitionID{Topic: "t", Incarnation: n.host.Lookup("t").Incarnation, Partition: 0}
		const count = 6
		at := make([]seq.Offset, count)
		for i := range count {
			err := s.send(key, &Request{Topic: "t", Messages: []topic.Message{{Body: []byte("x")}}, Done: func(r topic.Receipt) {
				if at[i] = r.First; r.Err != nil {
					t.Errorf("publish %d: %v", i, r.Err)
				}
			}}, failure.NotLeading)
			if err != nil {
				t.Fatal(err)
			}
		}
		o, err := s.queue(key)
		if err != nil {
			t.Fatal(err)
		}
		o.mu.Lock()
		w := o.waiting
		o.returned, o.waiting = []*queuedPublish{w[3], w[0], w[2], w[1]}, w[4:]
		o.mu.Unlock()
		for range 10 {
			time.Sleep(retryLast)
			s.retry(time.Now())
			synctest.Wait()
		}
		if !slices.IsSorted(at) || at[count-1] != count-1 {
			t.Errorf("appended at %v, want in the order in which they were published", at)
		}
	})
}

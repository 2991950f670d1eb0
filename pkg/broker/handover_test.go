package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// load publishes to a topic through a node continuously until it is stopped.
type load struct {
	stop    chan struct{}
	ending  sync.Once
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows
	acked  []string
	failed []error
	gap    time.Duration // the longest that a publisher waited
}

func newLoad(l *lan, through meta.NodeID, name string, publishers int) *load {
	x := &load{stop: make(chan struct{})}
	l.t.Cleanup(x.end) // before the brokers go
	for k := range publishers {
		x.running.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-x.stop:
					return
				default:
				}
				x.publish(l.at(through), name, fmt.Sprintf("%d-%d", k, i))
			}
		})
	}
	return x
}

func (x *load) publish(b *Broker, name, body string) {
	got := make(chan error, 1)
	began := time.Now()
	b.Router.Publish(context.Background(), publish.Request{
		Topic: name, Partition: host.AnyPartition, Messages: []topic.Message{{Body: []byte(body)}}, Done: func(r topic.Receipt) { got <- r.Err },
	})
	err := <-got
	x.mu.Lock()
	defer x.mu.Unlock()
	x.gap = max(x.gap, time.Since(began))
	if err != nil {
		x.failed = append(x.failed, err)
	} else {
		x.acked = append(x.acked, body)
	}
}

func (x *load) count() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.acked)
}

func (x *load) end() {
	x.ending.Do(func() { close(x.stop) })
	x.running.Wait()
}

func TestTransferFailsNoPublishAndRepeatsNothing(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	const partitions = 8
	if _, err := l.at("n1").Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	x := newLoad(l, "n3", "t", 4)
	for round := range 6 {
		before := x.count()
		l.eventually("load", func() bool { return x.count() > before+50 })
		from := []meta.NodeID{"n1", "n2"}[round%2]
		if err := l.at(from).Host.Handover(t.Context()); err != nil {
			t.Fatal(err)
		}
		if led := l.at(from).Host.Lookup("t").AllLed(); len(led) != 0 {
			t.Fatalf("%s still leads %d", from, len(led))
		}
	}
	x.end()
	for _, err := range x.failed {
		t.Errorf("publish: %v", err)
	}
	t.Logf("%d published; a publisher waited for %v at the most", len(x.acked), x.gap)
	seen := map[string]int{}
	for i := range partitions {
		l.leader("t", i) // all have settled
	}
	for _, b := range []meta.NodeID{"n1", "n2", "n3"} {
		all, err := l.at(b).Node.PeekHere(t.Context(), operate.Peek{Topic: "t", Partition: host.AnyPartition, Max: operate.MaxPeek})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range all {
			seen[string(m.Body)]++
		}
	}
	if len(x.acked) < operate.MaxPeek {
		for _, m := range x.acked {
			if seen[m] != 1 {
				t.Errorf("%s is there %d times", m, seen[m])
			}
		}
	}
}

func TestPromptConsumerSeesNothingTwice(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	c := l.subscribe("t", "c", 0)
	l.mustPut("t", 0, "a", "b")
	if got := c.take(2); got != "a b" {
		t.Fatalf("got %q", got)
	}
	if err := l.at("n1").Host.Handover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.ended.Load() == nil {
		t.Error("the consumer was not told")
	}
	c.Close()
	l.mustPut("t", 0, "c")
	if got := l.subscribe("t", "c", 0).take(1); got != "c" {
		t.Errorf("the new leader delivers %q", got)
	}
}

func TestPartitionWithoutOtherCandidateStays(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("one", "n1")
	l.create("t", "n1", "n2", "n3")
	l.mustPut("one", 0, "a")
	l.mustPut("t", 0, "a")
	l.kill("n2")
	l.kill("n3")
	l.failOver("n2")
	l.failOver("n3")
	if err := l.at("n1").Host.Handover(t.Context()); err != nil {
		t.Errorf("nothing can go: %v", err)
	}
	l.mustPut("one", 0, "b")
}

func TestFailedTransferLeavesLeaderWorking(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	c := l.subscribe("t", "c", 0)
	err := l.transfer(t.Context(), "t", "n9")
	if !errors.Is(err, failure.NodeNotFound) {
		t.Errorf("to an unknown node: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.transfer(gone, "t", "n2"); err == nil {
		t.Error("given up, and done nevertheless")
	}
	l.mustPut("t", 0, "a")
	if got := c.take(1); got != "a" {
		t.Errorf("got %q", got)
	}
	if err := l.transfer(t.Context(), "t", "n2"); err != nil {
		t.Errorf("it is still on its way: %v", err)
	}
}

// The node that asks may apply an election earlier than the leader that it makes. If that leader denied its
// leadership, it would be deposed without being sealed, and what it has in progress would fail.
func TestLeaderTransfersOnceItsElectionIsApplied(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	l.leader("t", 0)
	l.inSync("t", 0, 3)
	l.eventually("n2 hosts t", func() bool { h := l.at("n2").Host.Lookup("t"); return h != nil && h.Held(0) != nil })
	p := l.store.Topic("t").Partitions[0]
	ask := func(epoch seq.Epoch) <-chan error {
		done := make(chan error, 1)
		incarnation := l.store.Topic("t").Incarnation
		go func() {
			_, err := l.at("n2").Host.Transfer(t.Context(), forward.Transfer{Topic: "t", Incarnation: incarnation, Epoch: epoch, To: "n3"})
			done <- err
		}()
		return done
	}
	if err := <-ask(p.Epoch); !errors.Is(err, failure.NotLeading) {
		t.Errorf("of a follower: %v", err)
	}
	asked := ask(p.Epoch + 1)
	l.elect("t", 0, "n2")
	if err := <-asked; err != nil {
		t.Errorf("of a leader that was just elected: %v", err)
	}
	if p := l.store.Topic("t").Partitions[0]; p.Leader != "n3" {
		t.Errorf("led by %s", p.Leader)
	}
	began := time.Now()
	if err := <-ask(p.Epoch + 100); !errors.Is(err, failure.NotLeading) || time.Since(began) > patience {
		t.Errorf("of an election that never comes: %v after %v", err, time.Since(began))
	}
}

// A handover may be for a topic that was deleted: the topic that has its name now
// stays where it is.
func TestTransferOfOldIncarnationIsRefused(t *testing.T) {
	l := newLan(t, nil, "n1", "n2")
	l.create("t", "n1", "n2")
	deleted := l.leader("t", 0).Host.Lookup("t").Incarnation
	if err := l.at("n1").Directory.DeleteTopic(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	l.create("t", "n1", "n2")
	b := l.leader("t", 0)
	l.inSync("t", 0, 2)
	for _, incarnation := range []meta.Incarnation{deleted, 0} {
		_, err := b.Host.Transfer(t.Context(), forward.Transfer{Topic: "t", Incarnation: incarnation, To: "n2"})
		if !errors.Is(err, failure.TopicNotFound) {
			t.Errorf("a hand-over of incarnation %d: %v", incarnation, err)
		}
	}
	if b.Host.Lookup("t").Led(0) == nil {
		t.Error("the topic of the same name was handed over")
	}
}

func TestLeaderStaysWithoutMetadataQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2", "n3")
		if _, err := l.at("n1").Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{Partitions: 300}); err != nil {
			t.Fatal(err)
		}
		for i := range 300 {
			l.mustPut("t", i, "a")
		}
		if err := l.store.Close(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := l.at("n1").Host.Handover(t.Context()); !errors.Is(err, host.ErrNoElection) {
			t.Errorf("handed over: %v", err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
		for i := range 300 {
			l.mustPut("t", i, "b")
		}
	})
}

func TestClosingNodeLeavesInSyncSetsFirst(t *testing.T) {
	l := newLan(t, func(o *Options) { o.ReplicaLag = time.Hour }, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	l.mustPut("t", 0, "a")
	b := l.at("n3")
	b.Host.Exit()
	if isr := l.store.Topic("t").Partitions[0].ISR; len(isr) != 2 {
		t.Errorf("in sync: %v", isr)
	}
	l.mustPut("t", 0, "b")
	l.stop("n3")
	l.mustPut("t", 0, "c")
	l.start("n3")
	l.inSync("t", 0, 3)
}

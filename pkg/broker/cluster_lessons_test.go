package broker

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Faults of similar replicated brokers: see docs/lessons.md.

// send publishes a batch at a partition's leader and does not wait.
func (l *lan) send(name string, bodies ...string) <-chan topic.Receipt {
	l.t.Helper()
	got := make(chan topic.Receipt, 1)
	p := publish.Request{Topic: name, Done: func(r topic.Receipt) { got <- r }}
	for _, b := range bodies {
		p.Messages = append(p.Messages, topic.Message{Body: []byte(b)})
	}
	l.leader(name, 0).Router.Publish(l.t.Context(), p)
	return got
}

func numbered(prefix string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("%s%04d", prefix, i))
	}
	return out
}

func TestIDsContinueAcrossLeaders(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	type stored struct{ first, end int }
	var all []stored
	next := 0
	for round := range 20 {
		from := l.store.Topic("t").Partitions[0].Leader
		to := []meta.NodeID{"n1", "n2", "n3"}[(round+1)%3]
		r := <-l.send("t", numbered(fmt.Sprint("a", round, "-"), 100)...)
		for errors.Is(r.Err, failure.NotLeading) {
			// The leader has restarted since it last led, and finds that another replica
			// holds the batch with the unknown outcome: it yields.
			r = <-l.send("t", numbered(fmt.Sprint("a", round, "-"), 100)...)
		}
		if r.Err != nil || int(r.First) < next || r.Count != 100 {
			t.Fatalf("round %d: %d messages from %d, after %d: %v", round, r.Count, r.First, next, r.Err)
		}
		next = int(r.First) + r.Count
		all = append(all, stored{int(r.First), next})
		open := l.send("t", numbered(fmt.Sprint("b", round, "-"), 10)...) // its outcome is unknown
		if round%5 == 4 {
			l.kill(from)
			l.failOver(from)
			l.inSync("t", 0, 2)
			l.start(from)
			l.inSync("t", 0, 3)
		} else if from != to {
			l.elect("t", 0, to)
		}
		if r := <-open; r.Err == nil {
			all = append(all, stored{int(r.First), int(r.First) + r.Count})
			next = max(next, int(r.First)+r.Count)
		}
	}
	used := map[int]bool{}
	for _, s := range all {
		for id := s.first; id < s.end; id++ {
			if used[id] {
				t.Fatalf("id %d was given twice", id)
			}
			used[id] = true
		}
	}
}

func TestFailOverDeliversOnlyWhatWasNotFinished(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	c := l.subscribe("t", "c", 0)
	if r := <-l.send("t", numbered("m", 500)...); r.Err != nil {
		t.Fatal(r.Err)
	}
	for _, d := range c.takeSome(500)[1:] {
		if err := c.Finish(d.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.leader("t", 0).Host.Lookup("t").Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.kill("n1")
	l.failOver("n1")
	next := l.subscribe("t", "c", 0)
	if got := next.take(1); got != "m0000" {
		t.Errorf("delivered again: %q", got)
	}
	next.idle()
}

func TestDeferredMessageIsDueOnceAcrossFailOvers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		c := l.subscribe("t", "c", 0)
		l.mustPut("t", 0, "a")
		for round := range 4 {
			got := c.takeSome(1)
			if int(got[0].Attempts) != round+1 {
				t.Fatalf("round %d: attempt %d", round, got[0].Attempts)
			}
			if err := c.Requeue(got[0].ID, 80*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if err := l.leader("t", 0).Host.Lookup("t").Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.Close()
			l.elect("t", 0, []meta.NodeID{"n2", "n3", "n1"}[round%3])
			c = l.subscribe("t", "c", 0)
		}
		if got := c.take(1); got != "a" {
			t.Errorf("got %q", got)
		}
		c.idle()
		if s := l.leader("t", 0).Host.Lookup("t").Led(0).Part.Channel("c").Stats(); s.Depth+s.InFlight+s.Deferred != 0 {
			t.Errorf("left: %+v", s)
		}
	})
}

func TestDeletedChannelStaysDeletedAcrossFailOver(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	l.subscribe("t", "other", 0).Close()
	l.subscribe("t", "c", 0).Close()
	l.mustPut("t", 0, "a", "b")
	if err := l.at("n2").Contents.DeleteChannel(t.Context(), "t", "c"); err != nil {
		t.Fatal(err)
	}
	l.kill("n1")
	l.failOver("n1")
	if l.leader("t", 0).Host.Lookup("t").Led(0).Part.Channel("c") != nil {
		t.Error("the channel has come back")
	}
	l.eventually("what was inherited to be committed", func() bool {
		return l.leader("t", 0).Host.Lookup("t").Led(0).Replica.Log().CommittedEnd() == 2
	})
	c := l.subscribe("t", "c", 0)
	l.mustPut("t", 0, "fresh")
	if got := c.take(1); got != "fresh" {
		t.Errorf("the recreated channel begins with %q", got)
	}
}

func TestDeletedTopicStaysDeletedAcrossElections(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	for range 5 {
		l.create("t", "n1", "n2", "n3")
		l.mustPut("t", 0, "a")
		stop := make(chan struct{})
		var electing sync.WaitGroup
		electing.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if tt := l.store.Topic("t"); tt != nil {
					// refused once the topic is deleted
					_, _ = l.store.Propose(t.Context(), meta.ElectLeaders{Elections: []meta.Election{{
						Topic: "t", Version: tt.Partitions[0].Version, Leader: []meta.NodeID{"n1", "n2", "n3"}[i%3],
					}}})
				}
			}
		})
		was := l.store.Topic("t").Partitions[0].Epoch
		l.eventually("elections", func() bool { return l.store.Topic("t").Partitions[0].Epoch > was+5 })
		if err := l.at("n2").Directory.Trash().Purge(t.Context(), "t", 0); err != nil {
			t.Fatal(err)
		}
		close(stop)
		electing.Wait()
		if l.store.Topic("t") != nil {
			t.Fatal("metadata has it again")
		}
		for id, h := range l.hosts {
			l.eventually(string(id)+" to let go", func() bool { return h.broker.Load().Host.Lookup("t") == nil })
		}
	}
	l.stop("n2")
	l.start("n2")
	for id, h := range l.hosts {
		if h.broker.Load().Host.Lookup("t") != nil {
			t.Errorf("%s has it again", id)
		}
		l.eventually("no data at "+string(id), func() bool {
			dirs, err := h.disk.ReadDir("data/topics")
			return err != nil || len(dirs) == 0
		})
	}
}

func TestUncommittedMessagesAreInvisible(t *testing.T) {
	l := newLan(t, func(o *Options) { o.ReplicaLag = time.Hour }, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	c := l.subscribe("t", "c", 0)
	l.mustPut("t", 0, "a")
	if got := c.take(1); got != "a" {
		t.Fatalf("got %q", got)
	}
	l.crash("n2")
	l.crash("n3")
	told := l.send("t", "b")
	b := l.at("n1")
	log := b.Host.Lookup("t").Led(0).Part.Log()
	l.eventually("the append", func() bool { return log.DurableEnd() == 2 })
	unseen := func(when string) {
		t.Helper()
		c.idle()
		some, err := b.Node.PeekHere(t.Context(), operate.Peek{Topic: "t", Partition: 0, Max: 10})
		if err != nil || len(some) != 1 || !bytes.Equal(some[0].Body, []byte("a")) {
			t.Errorf("%s: peeked at %d messages, %v", when, len(some), err)
		}
		if end := log.CommittedEnd(); end != 1 {
			t.Errorf("%s: committed to %d", when, end)
		}
	}
	unseen("no follower has it")
	l.tell("n2", false)
	l.tell("n3", false)
	l.inSync("t", 0, 1)
	unseen("fewer are in sync than the topic asks for")
	l.start("n2")
	l.start("n3")
	l.inSync("t", 0, 3)
	if got := c.take(1); got != "b" {
		t.Errorf("got %q", got)
	}
	<-told // committed, or reported as uncertain: the outcome was not known in time
}

func TestNewReplicaGetsLaggingChannelAndRetention(t *testing.T) {
	l := newLan(t, func(o *Options) {
		o.Log.SegmentBytes = 16 << 10
		o.RetentionInterval = 5 * time.Millisecond
	}, "n1", "n2", "n3", "n4")
	cfg := meta.TopicConfig{Replicas: 3, RetentionBytes: 64 << 10}.WithDefaults(3, false)
	if _, err := l.store.Propose(t.Context(), meta.CreateTopic{
		Name: "t", Config: cfg, Assignment: [][]meta.NodeID{{"n1", "n2", "n3"}},
	}); err != nil {
		t.Fatal(err)
	}
	lagging := l.subscribe("t", "c", 0)
	lagging.Close() // it has begun at 0 and takes nothing
	big := strings.Repeat("x", 500)
	for i := range 20 {
		// a batch is half a segment, or more than one
		if r := <-l.send("t", numbered(big+fmt.Sprint(i, "-"), 15+i%3*15)...); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	log := l.leader("t", 0).Host.Lookup("t").Led(0).Part.Log()
	l.eventually("retention", func() bool { return log.Start() > 0 })
	p := l.store.Topic("t").Partitions[0]
	if _, err := l.store.Propose(t.Context(), meta.StartReassign{Topic: "t", Version: p.Version, Target: []meta.NodeID{"n1", "n2", "n4"}}); err != nil {
		t.Fatal(err)
	}
	l.inSync("t", 0, 4)
	l.elect("t", 0, "n4")
	c := l.subscribe("t", "c", 0)
	start := l.leader("t", 0).Host.Lookup("t").Led(0).Part.Log().Start()
	got := c.takeSome(1)
	if start == 0 || got[0].ID.Offset() < start {
		t.Errorf("the new replica begins at %d and delivers %d", start, got[0].ID.Offset())
	}
	if err := c.Finish(got[0].ID); err != nil {
		t.Fatal(err)
	}
	end := l.leader("t", 0).Host.Lookup("t").Led(0).Part.Log().CommittedEnd()
	c.take(int(end-got[0].ID.Offset()) - 1)
	l.mustPut("t", 0, "last")
	if got := c.take(1); got != "last" {
		t.Errorf("got %.20q", got)
	}
}

func TestReplicaCatchesUpUnderLoad(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	x := newLoad(l, "n1", "t", 4)
	for range 3 {
		l.kill("n3")
		l.inSync("t", 0, 2)
		before := x.count()
		l.eventually("load", func() bool { return x.count() > before+100 })
		l.start("n3")
		l.inSync("t", 0, 3) // while publishing continues
	}
	x.end()
	for _, err := range x.failed {
		t.Errorf("publish: %v", err)
	}
	want := l.at("n1").Host.Lookup("t").Held(0).Replica.Log()
	have := l.at("n3").Host.Lookup("t").Held(0).Replica.Log()
	l.eventually("the same end", func() bool { return have.CommittedEnd() == want.CommittedEnd() })
	a, errA := want.ReadRaw(0, 1<<30, nil)
	b, errB := have.ReadRaw(0, 1<<30, nil)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("the logs differ: %d and %d bytes, %v, %v", len(a), len(b), errA, errB)
	}
}

package broker

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/meta"
)

func TestThreeReplicasHoldPublishedMessages(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	c := l.subscribe("t", "c", 0)
	l.mustPut("t", 0, "a", "b", "c")
	if got := c.take(3); got != "a b c" {
		t.Errorf("got %q", got)
	}
	for id, h := range l.hosts {
		hp := h.broker.Load().Host.Lookup("t").Held(0)
		l.eventually("the end at "+string(id), func() bool { return hp.Replica.Log().CommittedEnd() == 3 })
		if leads := hp.Led.Load() != nil; leads != (id == "n1") || leads == (hp.Standby.Load() != nil) {
			t.Errorf("%s leads: %v, on standby: %v", id, leads, hp.Standby.Load() != nil)
		}
	}
}

func TestNextLeaderContinuesFromPositions(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	c := l.subscribe("t", "c", 0)
	l.mustPut("t", 0, "a", "b", "c")
	if got := c.take(2); got != "a b" {
		t.Fatalf("got %q", got)
	}
	b := l.leader("t", 0)
	if err := b.Host.Lookup("t").Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.kill("n1")
	l.failOver("n1")
	l.inSync("t", 0, 2)
	l.mustPut("t", 0, "d")
	if got := l.subscribe("t", "c", 0).take(2); got != "c d" {
		t.Errorf("after the fail-over: %q", got)
	}
	if at := l.store.Topic("t").Partitions[0].Leader; at == "n1" {
		t.Errorf("%s leads", at)
	}
	l.start("n1")
	l.inSync("t", 0, 3)
}

func TestFollowerReturnsInSyncAfterPowerLoss(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	l.mustPut("t", 0, "a")
	for round := range 3 {
		l.kill("n3")
		l.inSync("t", 0, 2)
		l.mustPut("t", 0, fmt.Sprint("while away ", round))
		l.start("n3")
		l.inSync("t", 0, 3)
		l.mustPut("t", 0, fmt.Sprint("back ", round))
	}
	want := l.at("n1").Host.Lookup("t").Held(0).Replica.Log().CommittedEnd()
	hp := l.at("n3").Host.Lookup("t").Held(0)
	l.eventually("the committed end", func() bool { return hp.Replica.Log().CommittedEnd() == want })
}

func TestDeposedLeaderFollows(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	c := l.subscribe("t", "c", 0)
	l.mustPut("t", 0, "a")
	l.elect("t", 0, "n2")
	l.mustPut("t", 0, "b")
	if got := c.take(2); got != "a b" || c.ended.Load() != nil {
		t.Errorf("got %q; a client of a node that does not lead any more is served from the one that does", got)
	}
	hp := l.at("n1").Host.Lookup("t").Held(0)
	if hp.Led.Load() != nil || hp.Standby.Load() == nil {
		t.Error("n1 does not follow")
	}
	l.elect("t", 0, "n1")
	l.mustPut("t", 0, "c")
	l.inSync("t", 0, 3)
}

func TestLeaderlessPartitionIsIdle(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	l.mustPut("t", 0, "a")
	l.elect("t", 0, "")
	for _, h := range l.hosts {
		hp := h.broker.Load().Host.Lookup("t").Held(0)
		l.eventually("rest", func() bool { return hp.Led.Load() == nil && hp.Standby.Load() != nil })
	}
	l.elect("t", 0, "n3")
	l.mustPut("t", 0, "b")
}

func TestRecreatedTopicHasNoOldData(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	for round := range 4 {
		l.create("t", "n1", "n2", "n3")
		l.mustPut("t", 0, fmt.Sprint("of ", round))
		c := l.subscribe("t", "c", 0)
		if got := c.take(1); got != fmt.Sprint("of ", round) {
			t.Fatalf("got %q", got)
		}
		c.Close()
		if round%2 == 0 {
			l.kill("n3") // it misses the deletion of the topic
		}
		if err := l.at("n1").Directory.Trash().Purge(t.Context(), "t", 0); err != nil {
			t.Fatal(err)
		}
		if round%2 == 0 {
			l.start("n3")
		}
	}
	for id, h := range l.hosts {
		l.eventually("no data at "+string(id), func() bool {
			dirs, err := h.disk.ReadDir("data/topics")
			return err != nil || len(dirs) == 0
		})
	}
}

func TestMovedReplicaLeavesNoData(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3", "n4")
	l.create("t", "n1", "n2", "n3")
	l.mustPut("t", 0, "a", "b")
	p := l.store.Topic("t").Partitions[0]
	if _, err := l.store.Propose(t.Context(), meta.StartReassign{Topic: "t", Version: p.Version, Target: []meta.NodeID{"n1", "n2", "n4"}}); err != nil {
		t.Fatal(err)
	}
	l.inSync("t", 0, 4)
	p = l.store.Topic("t").Partitions[0]
	if _, err := l.store.Propose(t.Context(), meta.FinishReassign{Topic: "t", Version: p.Version}); err != nil {
		t.Fatal(err)
	}
	l.mustPut("t", 0, "c")
	l.eventually("n3 to let go", func() bool { return l.at("n3").Host.Lookup("t").Held(0) == nil })
	dir := datadir.At(l.hosts["n3"].disk, "data").Replica(l.store.Topic("t"), 0)
	l.eventually("no data at n3", func() bool {
		_, err := l.hosts["n3"].disk.ReadDir(dir)
		return errors.Is(err, fs.ErrNotExist)
	})
	if end := l.at("n4").Host.Lookup("t").Held(0).Replica.Log().End(); end != 3 {
		t.Errorf("n4 holds %d messages", end)
	}
}

func TestCreationIsAnsweredWhenLeadersServe(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	if _, err := l.at("n2").Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{Partitions: 6}); err != nil {
		t.Fatal(err)
	}
	if err := l.at("n3").Directory.CreateChannel(t.Context(), "t", "c", false); err != nil {
		t.Fatal(err)
	}
	tt := l.store.Topic("t")
	for i := range tt.Partitions {
		if n := len(tt.Partitions[i].Replicas); n != 3 {
			t.Errorf("partition %d has %d replicas", i, n)
		}
		lp := l.at(tt.Partitions[i].Leader).Host.Lookup("t").Led(i)
		if lp == nil || lp.Part.Channel("c") == nil {
			t.Errorf("partition %d is not served, or without the channel", i)
		}
	}
}

func TestTopicIsCreatedWhileANodeIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1", "n2", "n3")
		l.kill("n2")
		l.failOver("n2")
		began := time.Now()
		if _, err := l.at("n1").Directory.CreateTopic(t.Context(), "t", meta.TopicConfig{}); err != nil {
			t.Fatal(err)
		}
		l.mustPut("t", 0, "a")
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v until it could be published to", took)
		}
		l.start("n2")
		l.inSync("t", 0, 3)
	})
}

func TestReplicaMovedWhileAwayIsDeletedAtStart(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3", "n4")
	l.create("t", "n1", "n2", "n3")
	l.mustPut("t", 0, "a")
	l.kill("n3")
	p := l.store.Topic("t").Partitions[0]
	if _, err := l.store.Propose(t.Context(), meta.StartReassign{Topic: "t", Version: p.Version, Target: []meta.NodeID{"n1", "n2", "n4"}}); err != nil {
		// the in-sync set changed at that moment
		l.inSync("t", 0, 2)
		p = l.store.Topic("t").Partitions[0]
		if _, err := l.store.Propose(t.Context(), meta.StartReassign{Topic: "t", Version: p.Version, Target: []meta.NodeID{"n1", "n2", "n4"}}); err != nil {
			t.Fatal(err)
		}
	}
	l.eventually("the move to end", func() bool {
		p := l.store.Topic("t").Partitions[0]
		_, err := l.store.Propose(t.Context(), meta.FinishReassign{Topic: "t", Version: p.Version})
		return err == nil
	})
	dir := datadir.At(nil, "data").Replica(l.store.Topic("t"), 0)
	if _, err := l.hosts["n3"].disk.ReadDir(dir); err != nil {
		t.Fatalf("n3 had nothing: %v", err)
	}
	l.start("n3")
	if files, err := l.hosts["n3"].disk.ReadDir(dir); err == nil {
		t.Errorf("n3 still has %v", files)
	}
}

// told counts the calls of a watcher.
type told struct{ times atomic.Int32 }

func (w *told) LedChanged() { w.times.Add(1) }

func TestWatchersAreNotifiedOfLeaderships(t *testing.T) {
	l := newLan(t, nil, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	l.leader("t", 0)
	h := l.at("n2").Host.Lookup("t")
	if h == nil {
		l.eventually("the topic at n2", func() bool { h = l.at("n2").Host.Lookup("t"); return h != nil })
	}
	var w told
	stop := h.Watch(&w)
	l.elect("t", 0, "n2")
	l.leader("t", 0)
	l.eventually("word of the gain", func() bool { return w.times.Load() == 1 })
	l.elect("t", 0, "n3")
	l.leader("t", 0)
	l.eventually("word of the loss", func() bool { return w.times.Load() == 2 })
	stop()
	l.elect("t", 0, "n2")
	l.leader("t", 0)
	if n := w.times.Load(); n != 2 {
		t.Errorf("told %d times", n)
	}
}

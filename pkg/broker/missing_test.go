package broker

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// lose removes the data of all topics from a host's disk. Its broker does not
// run.
func (l *lan) lose(id meta.NodeID) {
	l.t.Helper()
	if err := l.hosts[id].disk.RemoveAll("data/topics"); err != nil {
		l.t.Fatal(err)
	}
}

// serves reports whether a node has a role in partition 0 of a topic.
func (l *lan) serves(id meta.NodeID, name string) bool {
	hp := l.at(id).Host.Lookup(name).Held(0)
	return hp != nil && (hp.Led.Load() != nil || hp.Standby.Load() != nil)
}

func TestEmptiedReplicaOfNewTopicDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		l.mustPut("t", 0, "a", "b", "c") // nothing about it has changed since
		l.crash("n3")
		l.lose("n3")
		l.kill("n1")
		l.down("n1") // or it would be elected
		l.start("n3")
		l.electSuspect("t", 0, "n3")
		l.eventually("a leader that has all", func() bool {
			l.control()
			return l.at("n2").Host.Lookup("t").Led(0) != nil
		})
		l.eventually("the replica to be copied again", func() bool {
			p := l.store.Topic("t").Partitions[0]
			return slices.Contains(p.ISR, "n3") && len(p.Suspects) == 0
		})
		l.mustPut("t", 0, "d")
		l.wholeAt("n3", "t", 4)
	})
}

// electSuspect elects a replica that the metadata counts as in sync. If its node
// has already reported it as suspect, the metadata refuses.
func (l *lan) electSuspect(name string, i int, leader meta.NodeID) {
	l.t.Helper()
	l.eventually("an election", func() bool {
		e := meta.Election{Topic: name, Partition: i, Version: l.store.Topic(name).Partitions[i].Version, Leader: leader}
		r, err := l.store.Propose(l.t.Context(), meta.ElectLeaders{Elections: []meta.Election{e}})
		err = errors.Join(append(r.Failed, err)...)
		return err == nil || errors.Is(err, failure.Suspect)
	})
}

// down marks a node as down in the metadata.
func (l *lan) down(id meta.NodeID) {
	l.t.Helper()
	if _, err := l.store.Propose(l.t.Context(), meta.SetNodeState{ID: id, State: meta.NodeDown}); err != nil {
		l.t.Fatal(err)
	}
}

// TestLeaderWithoutDataIsDeposed elects the replica without data while all other nodes
// are down: the partition has no leader until one of them restarts.
func TestLeaderWithoutDataIsDeposed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		l.mustPut("t", 0, "a", "b", "c")
		l.crash("n3")
		l.lose("n3")
		for _, id := range []meta.NodeID{"n1", "n2"} {
			l.kill(id)
			l.down(id)
		}
		l.start("n3")
		l.electSuspect("t", 0, "n3")
		l.eventually("the replica to be deposed", func() bool {
			l.control()
			return l.store.Topic("t").Partitions[0].Leader == ""
		})
		l.control() // no replica can be elected
		if p := l.store.Topic("t").Partitions[0]; p.Leader != "" {
			t.Fatalf("%+v", p)
		}
		l.start("n2")
		l.eventually("a leader that has all", func() bool {
			l.control()
			return l.at("n2").Host.Lookup("t").Led(0) != nil
		})
	})
}

func TestLastInSyncReplicaWithoutDataWaitsForOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		l.mustPut("t", 0, "a", "b", "c")
		l.kill("n2")
		l.kill("n3")
		l.eventually("n1 to be alone in sync", func() bool {
			return slices.Equal(l.store.Topic("t").Partitions[0].ISR, []meta.NodeID{"n1"})
		})
		l.crash("n1")
		l.lose("n1")
		for range 2 { // findings of the first start are not forgotten at the second
			l.start("n1")
			if l.serves("n1", "t") {
				t.Fatal("a replica that lost its data serves nothing as if it were all")
			}
			l.crash("n1")
		}
		l.start("n1")
		l.start("n2")
		l.start("n3")
		p := l.store.Topic("t").Partitions[0]
		r, err := l.store.Propose(t.Context(), meta.ElectLeaders{Elections: []meta.Election{
			{Topic: "t", Version: p.Version, Leader: "n2", Unclean: true},
		}})
		if err != nil || r.Failed != nil {
			t.Fatal(err, r.Failed)
		}
		l.inSync("t", 0, 3)
		l.mustPut("t", 0, "d")
		l.wholeAt("n1", "t", 4)
	})
}

// A reassignment removes a replica from a node and adds it again, while that
// node's metadata is behind and its replica still follows: the leader adds it
// to the in-sync set. Then the node learns of the removal.
func TestRemovedReplicaDoesNotCountAsInSync(t *testing.T) {
	l := newLan(t, func(o *Options) { o.ReplicaLag = time.Hour }, "n1", "n2", "n3")
	l.create("t", "n1", "n2", "n3")
	l.mustPut("t", 0, "a", "b", "c")
	l.inSync("t", 0, 3)
	b := l.at("n3")
	h := b.Host.Lookup("t")
	if err := b.Host.Converge("t"); err != nil {
		t.Fatal(err)
	}
	b.Host.Converger.Stop() // from here on only the test gives the replica its role
	want, nodes := b.Host.Converger.Read("t")
	before := *want
	before.Partitions = slices.Clone(want.Partitions)
	before.Partitions[0].Replicas = []meta.NodeID{"n1", "n2"}
	before.Partitions[0].ISR = []meta.NodeID{"n1", "n2"}
	for _, m := range []*meta.Topic{&before, want} {
		if err := b.Host.Converger.Adopt(h, m, 0, nodes); err != nil {
			t.Fatal(err)
		}
	}
	if l.serves("n3", "t") {
		t.Error("an empty replica is served as the one that is in sync")
	}
}

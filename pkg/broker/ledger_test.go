package broker

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// settled waits until every running replica of partition 0 of a topic has a role.
func (l *lan) settled(name string, ids ...meta.NodeID) {
	l.t.Helper()
	for _, id := range ids {
		l.eventually("a role of "+string(id), func() bool { return l.at(id).Host.Lookup(name) != nil && l.serves(id, name) })
	}
}

// TestEmptyTopicSurvivesRestartOfAllNodes restarts every replica of an empty
// topic, and then publishes.
func TestEmptyTopicSurvivesRestartOfAllNodes(t *testing.T) {
	ends := map[string]func(*lan, meta.NodeID){"stop": (*lan).stop, "kill": (*lan).kill, "crash": (*lan).crash}
	all := []meta.NodeID{"n1", "n2", "n3"}
	for how, end := range ends {
		for replicas := 1; replicas <= len(all); replicas++ {
			t.Run(fmt.Sprint(how, " of ", replicas), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ids := all[:replicas]
					l := newLan(t, soon, ids...)
					l.create("t", ids...)
					l.settled("t", ids...)
					for range 2 {
						for _, id := range ids {
							end(l, id)
						}
						for _, id := range ids {
							l.start(id)
						}
						l.settled("t", ids...)
					}
					l.inSync("t", 0, replicas)
					l.mustPut("t", 0, "a")
					if p := l.store.Topic("t").Partitions[0]; p.Epoch > 1+2*1+2 {
						t.Errorf("epoch %d after two restarts", p.Epoch)
					}
				})
			})
		}
	}
}

// TestNeverCreatedReplicaIsEmpty assigns replicas to nodes that stop before
// they have created them: they have lost nothing.
func TestNeverCreatedReplicaIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := []meta.NodeID{"n1", "n2", "n3"}
		l := newLan(t, soon, ids...)
		for _, id := range ids {
			l.kill(id)
		}
		l.create("t", ids...)
		for _, id := range ids {
			l.start(id)
		}
		l.inSync("t", 0, 3)
		l.mustPut("t", 0, "a")
	})
}

// version returns the version of partition 0 of a topic: it grows when a replica
// leaves the in-sync set.
func (l *lan) version(name string) uint64 { return l.store.Topic(name).Partitions[0].Version }

// TestEmptyReplicaWithoutDirectoryIsMissing distinguishes an empty replica
// from one without its directory: the second leaves the in-sync set.
func TestEmptyReplicaWithoutDirectoryIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := []meta.NodeID{"n1", "n2", "n3"}
		l := newLan(t, soon, ids...)
		l.create("t", ids...)
		l.settled("t", ids...)
		before := l.version("t")
		l.crash("n3")
		l.lose("n3")
		l.start("n3")
		if l.serves("n3", "t") && l.version("t") == before {
			t.Error("a replica whose directory is gone serves as if it were empty")
		}
		l.eventually("n3 to be out of sync", func() bool { return l.version("t") > before })
		l.inSync("t", 0, 3)
		l.mustPut("t", 0, "a")
		l.wholeAt("n3", "t", 1)
	})
}

// TestReplicasOfLostLedgerAreMissing removes the ledger together with
// the topics: replicas that the metadata assigns to a node that has run before
// had existed.
func TestReplicasOfLostLedgerAreMissing(t *testing.T) {
	for _, gone := range [][]string{{"data/topics", "data/replicas"}, {"data/topics", "data/replicas", "data/cluster"}} {
		synctest.Test(t, func(t *testing.T) {
			l := newLan(t, soon, "n1", "n2", "n3")
			l.create("t", "n1", "n2", "n3")
			l.mustPut("t", 0, "a", "b")
			l.inSync("t", 0, 3)
			before := l.version("t")
			l.crash("n3")
			for _, name := range gone {
				if err := l.hosts["n3"].disk.RemoveAll(name); err != nil {
					t.Fatal(err)
				}
			}
			l.start("n3")
			if l.serves("n3", "t") && l.version("t") == before {
				t.Error("a replica that lost its data serves as if it were empty")
			}
			l.wholeAt("n3", "t", 2)
		})
	}
}

// TestLedgerForgetsRemovedReplicas deletes one topic while the node runs
// and one while it does not.
func TestLedgerForgetsRemovedReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, nil, "n1")
		l.create("a", "n1")
		for _, name := range []string{"b", "c", datadir.TopicName("a", l.store.Topic("a").Incarnation)} {
			l.create(name, "n1")
			l.mustPut(name, 0, "x")
		}
		remove := func(name string) {
			if _, err := l.store.Propose(t.Context(), meta.DeleteTopic{Name: name, Purge: true}); err != nil {
				t.Fatal(err)
			}
		}
		remove("a")
		l.eventually("the entry of a to go", func() bool { return len(l.entries("n1")) == 3 })
		l.kill("n1")
		remove("b")
		l.start("n1")
		if got := l.entries("n1"); len(got) != 2 || !slices.Contains(got, datadir.ReplicaName("c", l.store.Topic("c").Incarnation, 0)) {
			t.Errorf("the ledger names %v", got)
		}
	})
}

// entries returns the replicas in a host's ledger on its disk.
func (l *lan) entries(id meta.NodeID) []string {
	l.t.Helper()
	names, err := l.hosts[id].disk.ReadDir("data/replicas")
	if err != nil {
		l.t.Fatal(err)
	}
	return names
}

// write writes a file to a host's disk, durably.
func (l *lan) write(id meta.NodeID, path, text string) {
	l.t.Helper()
	if err := vfs.WriteFileSynced(l.hosts[id].disk, path, []byte(text)); err != nil {
		l.t.Fatal(err)
	}
}

// TestLedgerOfAnotherClusterIsIgnored starts nodes with ledgers of the
// same replicas, but of another cluster.
func TestLedgerOfAnotherClusterIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := []meta.NodeID{"n1", "n2"}
		l := newLan(t, soon, ids...)
		for _, id := range ids {
			l.kill(id)
		}
		l.create("t", ids...)
		for _, id := range ids {
			if err := datadir.At(l.hosts[id].disk, "data").SetOwner("another"); err != nil {
				t.Fatal(err)
			}
			l.write(id, "data/replicas/"+datadir.ReplicaName("t", l.store.Topic("t").Incarnation, 0), "")
			l.start(id)
		}
		l.inSync("t", 0, 2)
		l.mustPut("t", 0, "a")
	})
}

// TestUnfinishedMarkIsNoData has only the rest of an interrupted write in a
// replica's directory.
func TestUnfinishedMarkIsNoData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		l.mustPut("t", 0, "a")
		l.crash("n3")
		l.lose("n3")
		dir := datadir.At(nil, "data").Replica(l.store.Topic("t"), 0)
		if err := vfs.MkdirAllSynced(l.hosts["n3"].disk, dir); err != nil {
			t.Fatal(err)
		}
		l.write("n3", dir+"/"+datadir.MarkMissing+vfs.TempSuffix, "")
		before := l.store.Topic("t").Partitions[0].Version
		l.start("n3")
		if l.serves("n3", "t") && l.store.Topic("t").Partitions[0].Version == before {
			t.Error("a replica that lost its data serves as if it were empty")
		}
		l.wholeAt("n3", "t", 1)
	})
}

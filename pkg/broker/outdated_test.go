package broker

import (
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
)

// startOutdated starts a node whose registration has found its disk outdated: the metadata has taken it out of every
// in-sync set, and its replicas are marked.
func (l *lan) startOutdated(id meta.NodeID, name string) {
	l.t.Helper()
	if _, err := l.store.Propose(l.t.Context(), meta.NodeStarted{Node: meta.Node{ID: id, Levels: level.Supported()}, Empty: true}); err != nil {
		l.t.Fatal(err)
	}
	t := l.store.Topic(name)
	l.write(id, path.Join(datadir.At(l.hosts[id].disk, "data").Replica(t, 0), datadir.MarkOutdated), "")
	l.start(id)
}

// A replica of an outdated disk is set aside and copied again, whatever it holds.
func TestOutdatedReplicaIsCopiedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		l.mustPut("t", 0, "a", "b", "c")
		l.inSync("t", 0, 3)
		l.kill("n3")
		l.mustPut("t", 0, "d")
		l.startOutdated("n3", "t")
		l.inSync("t", 0, 3)
		l.wholeAt("n3", "t", 4)
		dir := datadir.At(l.hosts["n3"].disk, "data").Replica(l.store.Topic("t"), 0)
		if names, err := l.hosts["n3"].disk.ReadDir(dir); err != nil || slices.Contains(names, datadir.MarkOutdated) {
			t.Errorf("the copy is that of the outdated disk: %q, %v", names, err)
		}
	})
}

// A replica of an outdated disk whose partition has no leader stays, also over restarts, and leads once an operator
// elects it.
func TestOutdatedLastReplicaWaitsForOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2")
		l.create("t", "n2")
		l.mustPut("t", 0, "a", "b", "c")
		l.crash("n2")
		l.startOutdated("n2", "t")
		l.crash("n2")
		b := l.start("n2")
		if p := l.store.Topic("t").Partitions[0]; l.serves("n2", "t") || p.Leader != "" || len(p.ISR) != 0 {
			t.Fatalf("it serves: %+v", p)
		}
		reported := false
		for _, r := range b.Node.Health().Reasons {
			reported = reported || r.Code == "replicas_outdated" && strings.Contains(r.What, "t/0")
		}
		if !reported {
			t.Errorf("health: %+v", b.Node.Health())
		}
		for range 2 {
			p := l.store.Topic("t").Partitions[0]
			r, err := l.store.Propose(t.Context(), meta.ElectLeaders{Elections: []meta.Election{{Topic: "t", Version: p.Version, Leader: "n2", Unclean: true}}})
			if err != nil || r.Failed != nil {
				t.Fatal(err, r.Failed)
			}
			l.eventually("it leads", func() bool { return l.at("n2").Host.Lookup("t").Led(0) != nil })
			if end := l.at("n2").Host.Lookup("t").Held(0).Replica.Log().End(); end != 3 {
				t.Errorf("it begins at %d", end)
			}
			l.crash("n2")
			l.start("n2") // the mark is gone
		}
	})
}

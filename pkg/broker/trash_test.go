package broker

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
)

// has reports whether a node's disk has any data of a topic.
func (l *lan) has(id meta.NodeID, name string, in meta.Incarnation) bool {
	_, err := l.hosts[id].disk.Stat("data/topics/" + datadir.TopicName(name, in))
	return err == nil
}

// letGo waits until no running node has a topic open.
func (l *lan) letGo(name string) {
	l.t.Helper()
	for id, h := range l.hosts {
		l.eventually(string(id)+" to let go", func() bool { b := h.broker.Load(); return b == nil || b.Host.Lookup(name) == nil })
	}
}

// TestRestoredTopicIsUnchanged deletes a topic while one node is down, restarts nodes in every
// way while the topic is in the trash, and restores it: messages and positions are there, the
// log continues, and every replica holds the topic.
func TestRestoredTopicIsUnchanged(t *testing.T) {
	all := []meta.NodeID{"n1", "n2", "n3"}
	for what, meanwhile := range map[string]func(*lan){
		"nothing happens": func(*lan) {},
		"all are stopped": func(l *lan) {
			for _, id := range all {
				l.stop(id)
				l.start(id)
			}
		},
		"all crash": func(l *lan) {
			for _, id := range all {
				l.crash(id)
			}
			for _, id := range all {
				l.start(id)
			}
		},
		"a namesake comes and goes": func(l *lan) {
			l.create("t", "n2", "n3")
			l.settled("t", "n2", "n3")
			l.mustPut("t", 0, "of the namesake")
			if err := l.at("n1").Directory.Trash().Purge(l.t.Context(), "t", 0); err != nil {
				l.t.Fatal(err)
			}
			l.letGo("t")
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLan(t, soon, all...)
				l.create("t", all...)
				in := l.store.Topic("t").Incarnation
				l.settled("t", all...)
				l.mustPut("t", 0, "a", "b", "c")
				c := l.subscribe("t", "c", 0)
				if got := c.take(1); got != "a" {
					t.Fatalf("took %q", got)
				}
				c.Close()
				l.kill("n3") // it misses the deletion
				if err := l.at("n1").Directory.DeleteTopic(t.Context(), "t"); err != nil {
					t.Fatal(err)
				}
				l.letGo("t")
				l.start("n3")
				meanwhile(l)
				for _, id := range all {
					if !l.has(id, "t", in) {
						t.Errorf("%s has nothing of a topic in the trash", id)
					}
				}
				if _, err := l.at("n2").Directory.Trash().Restore(t.Context(), meta.RestoreTopic{Name: "t"}); err != nil {
					t.Fatal(err)
				}
				l.settled("t", all...)
				l.inSync("t", 0, 3)
				l.mustPut("t", 0, "d")
				c = l.subscribe("t", "c", 0)
				if got := c.take(3); got != "b c d" {
					t.Errorf("after the restore a consumer gets %q", got)
				}
				c.Close()
				for _, id := range all {
					if id != l.store.Topic("t").Partitions[0].Leader {
						l.wholeAt(id, "t", 4)
					}
				}
			})
		})
	}
}

// TestTopicIsRestoredInPlaceOfANewerOne: while a node that held both is down.
func TestTopicIsRestoredInPlaceOfANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []meta.NodeID{"n1", "n2", "n3"}
		l := newLan(t, soon, all...)
		l.create("t", all...)
		older := l.store.Topic("t").Incarnation
		l.settled("t", all...)
		l.mustPut("t", 0, "a", "b")
		c := l.subscribe("t", "c", 0)
		if got := c.take(1); got != "a" {
			t.Fatalf("took %q", got)
		}
		c.Close()
		if err := l.at("n1").Directory.DeleteTopic(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		l.letGo("t")
		l.create("t", all...)
		newer := l.store.Topic("t").Incarnation
		l.settled("t", all...)
		l.mustPut("t", 0, "x", "y", "z")
		newest := l.subscribe("t", "c", 0)
		if got := newest.take(1); got != "x" {
			t.Fatalf("took %q", got)
		}
		l.kill("n3")
		if _, err := l.at("n2").Directory.Trash().Restore(t.Context(), meta.RestoreTopic{Name: "t", Incarnation: older, Replaces: newer}); err != nil {
			t.Fatal(err)
		}
		l.start("n3")
		l.settled("t", all...)
		l.inSync("t", 0, 3)
		l.mustPut("t", 0, "d")
		c = l.subscribe("t", "c", 0)
		if got := c.take(2); got != "b d" {
			t.Errorf("after the restore a consumer gets %q", got)
		}
		c.Close()
		for _, id := range all {
			if !l.has(id, "t", newer) {
				t.Errorf("%s has nothing of the topic that was replaced", id)
			}
			if id != l.store.Topic("t").Partitions[0].Leader {
				l.wholeAt(id, "t", 3)
			}
		}
	})
}

// TestPurgedTopicLeavesTheDisk purges a topic that is in the trash while one node is down.
func TestPurgedTopicLeavesTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLan(t, soon, "n1", "n2", "n3")
		l.create("t", "n1", "n2", "n3")
		l.create("u", "n1", "n2", "n3")
		in, other := l.store.Topic("t").Incarnation, l.store.Topic("u").Incarnation
		l.settled("t", "n1", "n2", "n3")
		l.settled("u", "n1", "n2", "n3")
		l.mustPut("t", 0, "a")
		for _, name := range []string{"t", "u"} {
			if err := l.at("n1").Directory.DeleteTopic(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			l.letGo(name)
		}
		l.kill("n3")
		if err := l.at("n1").Directory.Trash().Purge(t.Context(), "t", in); err != nil {
			t.Fatal(err)
		}
		if err := l.at("n1").Directory.Trash().Purge(t.Context(), "t", in); !errors.Is(err, failure.NotInTrash) {
			t.Errorf("purged twice: %v", err)
		}
		l.start("n3")
		for id := range l.hosts {
			l.eventually("no data at "+string(id), func() bool { return !l.has(id, "t", in) })
			if !l.has(id, "u", other) {
				t.Errorf("%s has nothing of the other topic", id)
			}
			for _, entry := range l.entries(id) {
				if entry == datadir.ReplicaName("t", in, 0) {
					t.Errorf("the ledger of %s has the purged topic", id)
				}
			}
		}
		if _, err := l.at("n1").Directory.Trash().Restore(t.Context(), meta.RestoreTopic{Name: "t"}); !errors.Is(err, failure.NotInTrash) {
			t.Errorf("restored what was purged: %v", err)
		}
	})
}

// TestFullDiskPurgesOldestTopic: deleted topics must not cause publishes to be refused. The
// node purges one at a time of those that it holds; topics of other nodes and small topics
// stay.
func TestFullDiskPurgesOldestTopic(t *testing.T) {
	d := &disks{all: map[meta.NodeID]*small{}}
	l := newLan(t, d.options, "n1", "n2", "n3")
	ended := func(name string) {
		if err := l.at("n1").Directory.DeleteTopic(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		l.letGo(name)
	}
	for _, name := range []string{"elsewhere", "empty", "first", "second"} {
		nodes := []meta.NodeID{"n1", "n2", "n3"}
		if name == "elsewhere" {
			nodes = nodes[1:2]
		}
		l.create(name, nodes...)
		l.settled(name, nodes...)
		if name != "empty" {
			for range 3 {
				l.mustPut(name, 0, strings.Repeat("x", 400<<10))
			}
		}
		ended(name)
	}
	left := func() (names []string) {
		for _, kept := range l.at("n1").Directory.Trash().Deleted() {
			names = append(names, kept.Topic.Name)
		}
		return names
	}
	d.set("n1", host.DefaultDiskReserve-1)
	l.eventually("one to be purged", func() bool { return len(left()) < 4 })
	for range 10 { // looks at the disk
		<-time.After(50 * time.Millisecond)
	}
	if got := left(); !slices.Equal(got, []string{"second", "empty", "elsewhere"}) {
		t.Errorf("in the trash are %q", got)
	}
}

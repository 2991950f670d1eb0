package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// copied copies the directory of a node that is down.
func (w *world) copied(name, to string) string {
	w.t.Helper()
	to = filepath.Join(w.dir, to)
	if err := os.CopyFS(to, os.DirFS(filepath.Join(w.dir, name))); err != nil {
		w.t.Fatal(err)
	}
	return to
}

// replica makes a directory like that of a replica in a node's data directory.
func (w *world) replica(dir, topic string, in meta.Incarnation) {
	w.t.Helper()
	if err := vfs.MkdirAllSynced(vfs.OS{}, filepath.Join(datadir.At(vfs.OS{}, dir).Topic(topic, in), "0")); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) marked(dir, topic string, in meta.Incarnation) bool {
	_, err := os.Stat(filepath.Join(datadir.At(vfs.OS{}, dir).Topic(topic, in), "0", datadir.MarkOutdated))
	return err == nil
}

func setAside(t *testing.T, dir string) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, outdatedDir+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// TestOldDiskOfReplacedNodeHoldsNothing: a node that was replaced under its name, and returns with its old disk,
// is in sync nowhere, and takes part in no election with what is stored there.
func TestOldDiskOfReplacedNodeHoldsNothing(t *testing.T) {
	for _, of := range []struct {
		name  string
		fresh bool // the replacement began with an empty directory; otherwise the old disk is an earlier copy
		alone bool // the others are down, and return later
	}{
		{"replaced", true, false},
		{"restored", false, false},
		{"replaced, without a leader", true, true},
		{"restored, without a leader", false, true},
	} {
		t.Run(of.name, func(t *testing.T) {
			inWorld(t, []string{"n1", "n2", "n3"}, 3, func(t *testing.T, w *world) {
				w.start("n1", "n2", "n3")
				w.formed(3, 3)
				w.topic("t", []meta.NodeID{"n3", "n1"})
				w.topic("alone", []meta.NodeID{"n3"})
				w.kill("n3")
				in := w.node("n1").Store().Topic("t").Incarnation
				w.replica(filepath.Join(w.dir, "n3"), "t", in)
				old := w.copied("n3", "old")
				if of.fresh {
					w.startIn("n3", filepath.Join(w.dir, "new"))
				} else {
					w.start("n3")
				}
				w.formed(3, 3)
				w.topic("since", []meta.NodeID{"n3"})
				w.kill("n3")
				if of.alone {
					w.kill("n1")
					w.kill("n2")
					p := w.startIn("n3", old)
					w.sleep(time.Minute) // it does not vote before another has answered
					w.start("n2")        // n1 stays down: no leader, until the old disk votes
					if <-p.opened; !errors.Is(p.err, formation.ErrStartAgain) {
						t.Fatalf("the old disk votes: %v", p.err)
					}
					p = w.startIn("n3", old)
					w.await("the metadata is set aside", func() bool { return setAside(t, old) == 1 })
					w.start("n1")
					<-p.opened
				} else {
					w.startIn("n3", old)
				}
				w.formed(3, 3)
				if p := w.partition("n1", "t", 0); slices.Contains(p.ISR, "n3") || p.Leader == "n3" {
					t.Errorf("t/0: %+v", p)
				}
				for _, topic := range []string{"alone", "since"} {
					if p := w.partition("n1", topic, 0); len(p.ISR) != 0 || p.Leader != "" {
						t.Errorf("%s/0, whose only replica is gone: %+v", topic, p)
					}
				}
				if n := w.node("n1").Store().Node("n3"); !n.Outdated || !w.marked(old, "t", in) || setAside(t, old) != 1 {
					t.Errorf("%+v, replica marked: %v, metadata set aside: %d", n, w.marked(old, "t", in), setAside(t, old))
				}
				w.kill("n3")
				w.startIn("n3", old)
				w.formed(3, 3)
				if n := w.node("n1").Store().Node("n3"); n.Outdated || setAside(t, old) != 1 {
					t.Errorf("after another start: %+v, metadata set aside: %d", n, setAside(t, old))
				}
			})
		})
	}
}

// TestRestartsAreNotOutdated: neither one node nor all, in any order, after a kill.
func TestRestartsAreNotOutdated(t *testing.T) {
	inWorld(t, []string{"n1", "n2", "n3"}, 3, func(t *testing.T, w *world) {
		w.start("n1", "n2", "n3")
		w.formed(3, 3)
		w.topic("t", []meta.NodeID{"n3", "n1"})
		for range 3 {
			w.kill("n3")
			w.start("n3")
			w.formed(3, 3)
		}
		w.kill("n1")
		for range 2 { // which n1 does not learn of
			w.kill("n3")
			w.start("n3")
			w.formed(2, 3)
		}
		w.kill("n2")
		w.kill("n3")
		w.start("n1", "n3") // n1 has an old state, and must not call n3 outdated
		w.formed(2, 3)
		w.start("n2")
		w.formed(3, 3)
		for _, name := range []string{"n1", "n2", "n3"} {
			if n := w.node("n1").Store().Node(meta.NodeID(name)); n.Outdated || setAside(t, filepath.Join(w.dir, name)) != 0 {
				t.Errorf("%+v", n)
			}
		}
		if p := w.partition("n1", "t", 0); !slices.Contains(p.ISR, "n3") {
			t.Errorf("t/0: %+v", p)
		}
	})
}

// TestOutdatedNodeFormsNoCluster: without addresses of others it would, with its metadata set aside.
func TestOutdatedNodeFormsNoCluster(t *testing.T) {
	inWorld(t, []string{"n1", "n2", "n3"}, 3, func(t *testing.T, w *world) {
		w.start("n1", "n2", "n3")
		w.formed(3, 3)
		w.kill("n3")
		old := w.copied("n3", "old")
		w.start("n3")
		w.formed(3, 3)
		w.kill("n3")
		w.options = func(_ string, o *Options) { o.Join, o.Expect = nil, 1 }
		p := w.startIn("n3", old)
		select {
		case <-p.opened:
		case <-time.After(time.Minute):
			t.Fatal("it waits for a cluster")
		}
		if !errors.Is(p.err, formation.ErrDiskOutdated) || setAside(t, old) != 0 {
			t.Errorf("%v, metadata set aside: %d", p.err, setAside(t, old))
		}
	})
}

// TestReplacedControllerJoinsAtOnce: the others take it for the metadata leader for a moment, and pass requests to
// join on to it, also its own.
func TestReplacedControllerJoinsAtOnce(t *testing.T) {
	inWorld(t, []string{"n1", "n2", "n3"}, 3, func(t *testing.T, w *world) {
		w.start("n1", "n2", "n3")
		w.formed(3, 3)
		for range 3 {
			l := w.leader().name
			w.kill(l)
			p := w.startIn(l, filepath.Join(t.TempDir(), l))
			if <-p.opened; p.err != nil {
				t.Fatal(p.err)
			}
			w.formed(3, 3)
		}
	})
}

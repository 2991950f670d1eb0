package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// killAll kills all nodes at once.
func (w *world) killAll() {
	w.t.Helper()
	for _, name := range w.names() {
		if err := w.kill(name); err != nil {
			w.t.Fatal(err)
		}
	}
}

// recover makes a stopped node a cluster of one.
func (w *world) recover(name string) string {
	w.t.Helper()
	id, err := Recover(RecoverOptions{Self: meta.NodeID(name), DataDir: filepath.Join(w.dir, name)})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// refused waits for a node whose Open must fail with the given error.
func (w *world) refused(name string, want error) {
	w.t.Helper()
	p := w.process(name)
	select {
	case <-p.opened:
	case <-time.After(time.Minute):
		w.t.Fatalf("%s neither opens nor is refused", name)
	}
	if err := w.kill(name); !errors.Is(err, want) {
		w.t.Errorf("%s: %v, want %v", name, err, want)
	}
}

// formedAs is formed for nodes of a cluster with a known id.
func (w *world) formedAs(id string, nodes, voters int) {
	w.t.Helper()
	w.formed(nodes, voters)
	for _, name := range w.names() {
		if got := w.cluster(name); got != id {
			w.t.Errorf("%s is in cluster %s, want %s", name, got, id)
		}
	}
}

// cluster returns the cluster id of a node.
func (w *world) cluster(name string) string {
	w.t.Helper()
	return w.node(name).Store().View().Cluster().ID
}

func TestRecoveredNodeContinuesAndOthersJoinEmpty(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		w.start(three...)
		w.formed(3, 3)
		was := w.cluster("n1")
		w.topic("t", []meta.NodeID{"n1", "n2", "n3"})
		w.killAll()
		id := w.recover("n3")
		if !meta.Supersedes(id, was) {
			t.Errorf("%s after %s", id, was)
		}
		if _, err := Recover(RecoverOptions{Self: "n3", DataDir: filepath.Join(w.dir, "n3")}); !errors.Is(err, ErrNotLost) || fate.Of(err) != fate.Refused {
			t.Errorf("again: %v", err)
		}
		w.start("n3")
		w.formedAs(id, 1, 1)
		w.start("n1", "n2") // a majority of the previous cluster
		w.refused("n1", ErrSuperseded)
		w.refused("n2", ErrSuperseded)
		if err := os.RemoveAll(filepath.Join(w.dir, "n2")); err != nil {
			t.Fatal(err)
		}
		w.start("n2")
		w.formedAs(id, 2, 2)
	})
}

// A majority of the abandoned nodes returns without a connection to the recovered one: from then on
// it is another cluster. It stops when it can reach the recovered node and has no leader.
func TestAbandonedClusterStaysSeparate(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		w.start(three...)
		w.formed(3, 3)
		w.killAll()
		id := w.recover("n1")
		w.start("n2", "n3")
		w.formed(2, 3)
		w.start("n1")
		n1 := w.node("n1")
		w.sleep(10 * time.Second)
		if got := w.cluster("n1"); got != id || len(n1.Members().Members) != 1 || n1.Store().View().NodeCount() != 1 {
			t.Errorf("cluster %s with %d members and %d nodes", got, len(n1.Members().Members), n1.Store().View().NodeCount())
		}
		n2 := w.node("n2")
		if err := w.kill("n3"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-n2.Failed():
		case <-time.After(time.Minute):
			t.Fatal("it waits for a cluster that was given up")
		}
		if !errors.Is(n2.Err(), ErrSuperseded) {
			t.Errorf("%v", n2.Err())
		}
	})
}

func TestInterruptedRecoveryIsRepeated(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		w.start(three...)
		w.formed(3, 3)
		w.killAll()
		dir := filepath.Join(w.dir, "n1")
		full := errors.New("no space")
		var claimed []string
		claim := func(cluster string) error {
			claimed = append(claimed, cluster)
			if len(claimed) == 1 {
				return full
			}
			return nil
		}
		if _, err := Recover(RecoverOptions{Self: "n1", DataDir: dir, Claim: claim}); !errors.Is(err, full) {
			t.Fatal(err)
		}
		w.start("n1")
		w.refused("n1", ErrRecoveryUnfinished)
		w.sleep(time.Second)
		s, err := ReadSurvivor(RecoverOptions{Self: "n1", DataDir: dir})
		if err != nil || !s.Unfinished {
			t.Fatalf("%+v, %v", s, err)
		}
		id, err := Recover(RecoverOptions{Self: "n1", DataDir: dir, Claim: claim})
		if err != nil || len(claimed) != 2 || claimed[0] != id || claimed[1] != id {
			t.Fatalf("%s, claimed %v: %v", id, claimed, err)
		}
		w.start("n1")
		w.formedAs(id, 1, 1)
	})
}

func TestRecoverNeedsLostNodes(t *testing.T) {
	inWorld(t, []string{"n1"}, 1, func(t *testing.T, w *world) {
		w.start("n1")
		w.formed(1, 1)
		w.killAll()
		for _, tt := range []struct {
			self, dir string
			want      error
		}{
			{"n1", "n1", ErrNotLost},
			{"n2", "n1", raftstore.ErrOtherNode},
			{"n1", "nowhere", raftstore.ErrNoStore},
		} {
			o := RecoverOptions{Self: meta.NodeID(tt.self), DataDir: filepath.Join(w.dir, tt.dir)}
			if _, err := Recover(o); !errors.Is(err, tt.want) {
				t.Errorf("%s in %s: %v, want %v", tt.self, tt.dir, err, tt.want)
			}
			if there, err := (marks{vfs.OS{}, o.DataDir}).has(markRecovering); there || err != nil {
				t.Errorf("%s in %s: it is marked as being recovered, %v", tt.self, tt.dir, err)
			}
		}
	})
}

// A node that waits for a majority reports to an operator what it knows from its disk and from the
// responding nodes.
func TestNodeWithoutMajorityNamesSilentNodes(t *testing.T) {
	inWorld(t, three, 3, func(t *testing.T, w *world) {
		var mu sync.Mutex // guards opening
		opening := map[string]Lookout{}
		w.options = func(name string, o *Options) {
			o.Opening = func(l Lookout) {
				mu.Lock()
				defer mu.Unlock()
				opening[name] = l
			}
		}
		w.start(three...)
		w.formed(3, 3)
		w.topic("t", []meta.NodeID{"n1", "n2", "n3"})
		w.sleep(2 * time.Second)
		w.killAll()
		w.start("n1")
		w.sleep(5 * time.Second)
		mu.Lock()
		o := operate.NewOutlook("n1", opening["n1"])
		mu.Unlock()
		reasons := o.Ready()
		if len(reasons) != 1 || reasons[0].Code != "metadata_quorum" || !strings.Contains(reasons[0].What, "n2 n3") {
			t.Errorf("%+v", reasons)
		}
		info := o.Cluster()
		states := map[string]string{}
		for _, n := range info.Nodes {
			states[n.ID] = string(n.State)
		}
		if info.ClusterID == "" || info.Controller != "" || states["n1"] != "up" || states["n2"] != "down" || states["n3"] != "down" {
			t.Errorf("%+v", info)
		}
		if topics := o.Topics(); len(topics) != 1 || topics[0].Partitions[0].Leader != "" || len(topics[0].Partitions[0].Replicas) != 3 {
			t.Errorf("%+v", topics)
		}
		if r := o.Raft(t.Context()); r.Voters != 3 || r.Tolerance != -1 || !r.Members[0].Answered || r.Members[1].Answered {
			t.Errorf("%+v", r)
		}
		if h := o.ClusterHealth(t.Context()); h.Healthy || h.Degraded || len(h.Reasons) != 3 {
			t.Errorf("%+v", h)
		}
		w.start("n2")
		n1 := w.node("n1")
		w.await("n2 answers n1", func() bool { return n1.Answers("n2") && !n1.Answers("n3") })
	})
}

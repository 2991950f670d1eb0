package raftstore

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
)

// onDisk makes the nodes of a cluster keep their metadata in files.
func (c *testCluster) onDisk(ids ...meta.NodeID) {
	c.t.Helper()
	dir := c.t.TempDir()
	for _, id := range ids {
		c.dirs[id] = filepath.Join(dir, string(id))
	}
}

// trio is a cluster of three nodes with a topic on all of them.
func (c *testCluster) trio() {
	c.t.Helper()
	c.onDisk("n1", "n2", "n3", "n4")
	c.grow(3)
	for _, id := range c.ids() {
		propose(c.t, c.store(id), meta.NodeStarted{Node: meta.Node{ID: id, Levels: level.Supported()}})
	}
	t := topic("t")
	t.Config.Replicas, t.Config.MinISR, t.Assignment = 3, 2, [][]meta.NodeID{{"n1", "n2", "n3"}}
	propose(c.t, c.store("n1"), t)
	c.settle()
}

func TestOnlySurvivorIsAClusterOfOneThatGrows(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.trio()
		for _, id := range c.ids() {
			c.stop(id)
		}
		stored, err := ReadStored(c.dirs["n3"], "n3")
		if err != nil {
			t.Fatal(err)
		}
		was := stored.State.Cluster().ID
		if len(stored.Configuration.Voters()) != 3 || stored.State.Topic("t") == nil || len(stored.Unsure) != 0 || stored.Written.IsZero() {
			t.Errorf("%+v", stored)
		}
		id := meta.RecoveredID(was, "AAAA")
		for range 2 { // again is harmless
			if _, err := Recover(c.dirs["n3"], "n3", id, slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
			c.sleep(time.Second) // snapshots are named by the time
		}
		s := c.start("n3", false)
		if c.leader() != s {
			t.Fatal("it does not lead")
		}
		if got := s.View(); got.Cluster().ID != id || got.NodeCount() != 1 || !slices.Equal(got.Topic("t").Partitions[0].Replicas, []meta.NodeID{"n3"}) {
			t.Errorf("%+v with %d nodes, %+v", got.Cluster(), got.NodeCount(), got.Topic("t"))
		}
		if err := s.Members().AddNonvoter(t.Context(), "n4", "n4"); err != nil {
			t.Fatal(err)
		}
		fresh := c.start("n4", false)
		if err := s.Members().Promote(t.Context(), "n4"); err != nil {
			t.Fatal(err)
		}
		propose(t, fresh, meta.NodeStarted{Node: meta.Node{ID: "n4", Levels: level.Supported()}})
		c.settle()
		if string(encoded(t, fresh)) != string(encoded(t, s)) {
			t.Errorf("a node that joins knows something else:\n%s\n%s", encoded(t, fresh), encoded(t, s))
		}
	})
}

func TestCommandsThatWereNotCommittedAreNamed(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.trio()
		leader := c.leader()
		id := leader.opts.NodeID
		c.sleep(2 * agreedEvery)
		c.net.Unplug(string(id))
		alone := topic("alone")
		alone.Assignment = [][]meta.NodeID{{id}}
		if _, err := leader.Propose(t.Context(), alone); err == nil || fate.Of(err) == fate.Refused {
			t.Fatalf("%v", err)
		}
		for _, id := range c.ids() {
			c.stop(id)
		}
		stored, err := ReadStored(c.dirs[id], id)
		if err != nil {
			t.Fatal(err)
		}
		if len(stored.Unsure) != 1 || meta.NameOf(stored.Unsure[0].Command) != "create-topic" {
			t.Fatalf("%+v", stored.Unsure)
		}
		next, err := Recover(c.dirs[id], id, "X.2.AAAA", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if next.Topic("alone") == nil {
			t.Error("what was in the log is not taken as agreed on")
		}
	})
}

func TestStoredStateIsReadWithoutLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.trio()
		for _, id := range c.ids() {
			c.stop(id)
		}
		s := c.start("n2", false)
		c.sleep(3 * time.Second)
		if _, known := s.Leader(); known || s.Topic("t") != nil {
			t.Fatal("it has a leader, or applied what was not committed")
		}
		stored, err := s.Stored()
		if err != nil {
			t.Fatal(err)
		}
		if stored.State.Topic("t") == nil || stored.State.NodeCount() != 3 || len(stored.Configuration.Members) != 3 {
			t.Errorf("%+v", stored)
		}
		if id, err := StoredCluster(s); err != nil || id == "" || id != stored.State.Cluster().ID {
			t.Errorf("cluster %q, %v", id, err)
		}
	})
}

func TestEmptyDirectoryIsNotRecovered(t *testing.T) {
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	if _, err := Recover(dir, "n1", "X.2.AAAA", log); !errors.Is(err, ErrNoStore) {
		t.Errorf("an empty directory: %v", err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("it holds %v now", names)
	}
	s := open(t, options(dir))
	populate(t, s, 1)
	closeNow(t, s)
	if _, err := Recover(dir, "n2", "X.2.AAAA", log); !errors.Is(err, ErrOtherNode) {
		t.Errorf("of another node: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, logFile), []byte("no such thing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Recover(dir, "n1", "X.2.AAAA", log); fate.Of(err) != fate.Corrupt {
		t.Errorf("damaged: %v", err)
	}
}

func TestLastOfEqualSnapshotsIsNewest(t *testing.T) {
	early, late := &raft.SnapshotMeta{ID: "2-9-100", Term: 2, Index: 9}, &raft.SnapshotMeta{ID: "2-9-200", Term: 2, Index: 9}
	if !newer(late, early) || newer(early, late) || newer(early, early) {
		t.Error("the order is not that of the consensus library")
	}
	if next := (&raft.SnapshotMeta{ID: "2-10-50", Term: 2, Index: 10}); !newer(next, late) || newer(late, next) {
		t.Error("the index does not count first")
	}
}

// The last node may never have been a voter: it has the entries that it was
// sent.
func TestNodeWithoutAVoteIsRecovered(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.trio()
		if err := c.leader().Members().AddNonvoter(t.Context(), "n4", "n4"); err != nil {
			t.Fatal(err)
		}
		propose(t, c.start("n4", false), meta.NodeStarted{Node: meta.Node{ID: "n4", Levels: level.Supported()}})
		c.settle()
		for _, id := range c.ids() {
			c.stop(id)
		}
		stored, err := ReadStored(c.dirs["n4"], "n4")
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := stored.Configuration.Find("n4"); !ok || m.Voter {
			t.Errorf("%+v", stored.Configuration)
		}
		if _, err := Recover(c.dirs["n4"], "n4", "X.2.AAAA", slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		s := c.start("n4", false)
		if c.leader() != s || s.Topic("t") == nil || len(s.Members().Configuration().Members) != 1 {
			t.Errorf("%+v", s.Members().Configuration())
		}
		if p := s.Topic("t").Partitions[0]; len(p.ISR) != 0 || p.Leader != "" {
			t.Errorf("it never held the partition: %+v", p)
		}
	})
}

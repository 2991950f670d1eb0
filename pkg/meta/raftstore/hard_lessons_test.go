package raftstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/meta"
)

// A node that was stopped for so long that no log has the missed commands gets
// the whole state, and misses none of the later commands.
func TestNodeBehindTheLogGetsASnapshot(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		first, err := Open(Options{
			NodeID: "n1", Address: "n1", Bootstrap: true, InMemory: true, ReserveBytes: -1, TrailingLogs: 1,
			Stream: c.stream("n1"), Forward: c.forward("n1"),
		})
		if err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		c.open["n1"] = first
		c.mu.Unlock()
		c.leader()
		for _, id := range []meta.NodeID{"n2", "n3"} {
			if err := first.Members().AddNonvoter(t.Context(), id, string(id)); err != nil {
				t.Fatal(err)
			}
			c.start(id, false)
			if err := first.Members().Promote(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		propose(t, first, meta.NodeStarted{Node: meta.Node{ID: "n1"}})
		away := c.store("n3")
		for round := range 3 {
			c.net.Unplug("n3")
			for i := range 20 {
				propose(t, first, topic(fmt.Sprintf("t%d-%d", round, i)))
				<-time.After(5 * time.Second)
			}
			propose(t, first, meta.DeleteTopic{Name: fmt.Sprintf("t%d-%d", round, 7)})
			if err := first.Snapshot(); err != nil {
				t.Fatal(err)
			}
			missed, changed := away.Applied(), away.Changed()
			c.net.Plug("n3")
			for range 100 {
				if away.Applied() >= first.Applied() {
					break
				}
				<-time.After(100 * time.Millisecond)
			}
			if at := first.Stats().SnapshotIndex; at <= missed {
				t.Fatalf("round %d: the leader's log holds all that was missed from %d on: its snapshot is of %d", round, missed, at)
			}
			select {
			case <-changed:
			default:
				t.Errorf("round %d: the change of the state was not announced", round)
			}
			propose(t, first, topic(fmt.Sprintf("after-%d", round)))
			for range 100 {
				if away.Applied() >= first.Applied() {
					break
				}
				<-time.After(10 * time.Millisecond)
			}
			if diff := cmp.Diff(first.Topics(), away.Topics()); diff != "" {
				t.Fatalf("round %d: %s", round, diff)
			}
			if n := len(away.Topics()); n != 20*(round+1) {
				t.Errorf("round %d: %d topics", round, n)
			}
		}
	})
}

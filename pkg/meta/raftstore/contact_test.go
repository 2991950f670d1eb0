package raftstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
)

// ask calls the leader like forward.
func (c *testCluster) ask(from string) Ask {
	return func(_ context.Context, leader meta.NodeID) (Standing, error) {
		s := c.store(leader)
		if s == nil || !c.reaches(from, string(leader)) {
			return Standing{}, failure.NotController
		}
		return s.Standing()
	}
}

func TestAllAreInContact(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.grow(3)
		c.settle()
		time.Sleep(time.Second)
		var worst time.Duration
		for range 500 {
			time.Sleep(7 * time.Millisecond)
			synctest.Wait()
			for _, id := range c.ids() {
				worst = max(worst, time.Since(c.store(id).QuorumContact()))
			}
		}
		if worst > 450*time.Millisecond {
			t.Errorf("the last contact was %v ago", worst)
		}
	})
}

// A node with a slow disk gets heartbeats all the time, but not the new entries.
func TestLaggingNodeIsNotInContact(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.disk = map[meta.NodeID]*badDisk{}
		for _, id := range []meta.NodeID{"n1", "n2", "n3"} {
			c.disk[id] = &badDisk{InmemStore: raft.NewInmemStore()}
		}
		c.grow(3)
		c.settle()
		leader, slow := c.leader(), c.store("n3")
		if slow == leader {
			slow = c.store("n2")
		}
		free := make(chan struct{})
		c.disk[slow.opts.NodeID].block.Store(&free)
		agreed := propose(t, leader, meta.NodeStarted{Node: meta.Node{ID: "m", Levels: level.Supported()}})
		at := time.Now()
		time.Sleep(3 * time.Second)
		if heard := slow.Stats().LastContact; heard > time.Second {
			t.Errorf("the leader was heard of %v ago", heard)
		}
		if slow.Applied() >= agreed.Index || !slow.QuorumContact().Before(at) {
			t.Errorf("in contact %v after what it has not applied", slow.QuorumContact().Sub(at))
		}
		c.disk[slow.opts.NodeID].block.Store(nil)
		close(free)
		time.Sleep(time.Second)
		if since := time.Since(slow.QuorumContact()); slow.Applied() < agreed.Index || since > 450*time.Millisecond {
			t.Errorf("it has caught up and was in contact %v ago", since)
		}
	})
}

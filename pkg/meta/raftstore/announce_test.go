package raftstore

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
)

func TestFollowerCommandTakesOneCommit(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.grow(3)
		time.Sleep(time.Second) // all know who leads
		for i := range 30 {
			for _, id := range c.ids() {
				began := time.Now()
				propose(t, c.store(id), meta.NodeStarted{Node: meta.Node{ID: meta.NodeID(fmt.Sprint("m", i)), Levels: level.Supported()}})
				if took := time.Since(began); took > 2*time.Millisecond {
					t.Errorf("%s: %v", id, took)
				}
				time.Sleep(time.Duration(i*7) * time.Millisecond)
			}
		}
	})
}

// Every node learns of a command at the same time as the leader, whichever node
// proposed it.
func TestFollowersLearnCommitsPromptly(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.grow(3)
		c.settle()
		time.Sleep(time.Second)
		for i := range 20 {
			r := propose(t, c.leader(), meta.NodeStarted{Node: meta.Node{ID: meta.NodeID(fmt.Sprint("m", i)), Levels: level.Supported()}})
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			for _, id := range c.ids() {
				if got := c.store(id).Applied(); got < r.Index {
					t.Errorf("%s has applied %d of %d", id, got, r.Index)
				}
			}
			time.Sleep(77 * time.Millisecond)
		}
	})
}

// entries counts the log's commands and barriers behind an index.
func entries(t *testing.T, s *Store, behind uint64) (commands, barriers int) {
	t.Helper()
	for i := behind + 1; i <= s.raft.LastIndex(); i++ {
		var l raft.Log
		if err := s.log.GetLog(i, &l); err != nil {
			t.Fatal(err)
		}
		switch l.Type { //nolint:exhaustive // only these are counted
		case raft.LogCommand:
			commands++
		case raft.LogBarrier:
			barriers++
		}
	}
	return commands, barriers
}

func TestBarrierFollowsWhatWasApplied(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		s := c.start("n1", true)
		c.leader()
		propose(t, s, meta.NodeStarted{Node: meta.Node{ID: "m", Levels: level.Supported()}})
		time.Sleep(time.Second)
		if _, barriers := entries(t, s, 2); barriers != 0 {
			t.Errorf("%d barriers of a node without followers", barriers)
		}
		c.stop("n1")
		delete(c.dirs, "n1")
		c.grow(3)
		c.settle()
		time.Sleep(time.Second)
		s = c.leader()
		at := s.raft.LastIndex()
		time.Sleep(time.Minute)
		if got := s.raft.LastIndex(); got != at {
			t.Errorf("%d entries of an idle leader", got-at)
		}
		const many = 200
		var wg sync.WaitGroup
		for i := range many {
			wg.Go(func() {
				propose(t, s, meta.NodeStarted{Node: meta.Node{ID: meta.NodeID(fmt.Sprint("m", i)), Levels: level.Supported()}})
			})
		}
		wg.Wait()
		time.Sleep(time.Second)
		commands, barriers := entries(t, s, at)
		if commands != many || barriers == 0 || barriers > many/4 {
			t.Errorf("%d barriers behind %d commands", barriers, commands)
		}
		t.Logf("%d barriers behind %d commands proposed at once", barriers, commands)
	})
}

// A barrier is due again if it was refused because of a leadership transfer or a full queue: the
// transfer may fail. It is not due again if it may have been appended.
func TestRefusedBarrierIsDueAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		for _, test := range []struct {
			err  error
			want bool
		}{
			{nil, false},
			{proposeError(raft.ErrLeadershipTransferInProgress), true},
			{proposeError(raft.ErrEnqueueTimeout), true},
			{proposeError(raft.ErrNotLeader), false},
			{proposeError(raft.ErrLeadershipLost), false},
			{failure.MetadataClosed, false},
		} {
			a := announcer{due: make(chan struct{}, 1)}
			began := time.Now()
			a.announce(func() error { return test.err }, stop)
			if got := len(a.due) == 1; got != test.want || got != (time.Since(began) == announceAgain) {
				t.Errorf("%v: due again %v, after %v", test.err, got, time.Since(began))
			}
		}
		close(stop)
		a := announcer{due: make(chan struct{}, 1)}
		a.announce(func() error { return proposeError(raft.ErrEnqueueTimeout) }, stop)
	})
}

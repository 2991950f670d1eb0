package raftstore

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLatenessIsSecondWorstRecentDelay(t *testing.T) {
	var l lateness
	at := time.Unix(1000, 0)
	if got := l.usual(at); got != 0 {
		t.Errorf("%v before anything was noted", got)
	}
	l.observe(at, 30*time.Second) // it was stopped, and continues
	if got := l.usual(at); got != 0 {
		t.Errorf("%v after one late moment", got)
	}
	for range 5 {
		at = at.Add(time.Second)
		l.observe(at, 300*time.Millisecond)
		l.observe(at, time.Millisecond)
	}
	if got := l.usual(at); got != 300*time.Millisecond {
		t.Errorf("%v, want 300ms", got)
	}
	if got := l.usual(at.Add(latenessWindow)); got != 300*time.Millisecond {
		t.Errorf("%v in the next window, want 300ms", got)
	}
	if got := l.usual(at.Add(3 * latenessWindow)); got != 0 {
		t.Errorf("%v long after, want 0", got)
	}
}

func TestTimeoutsGrowWithTheLateness(t *testing.T) {
	for _, tt := range []struct {
		late time.Duration
		want int
	}{
		{0, 1},
		{100 * time.Millisecond, 1},
		{101 * time.Millisecond, 2},
		{200 * time.Millisecond, 2},
		{201 * time.Millisecond, 4},
		{400 * time.Millisecond, 4},
		{401 * time.Millisecond, 8},
		{time.Hour, maxStretch},
	} {
		if got := stretch(500*time.Millisecond, tt.late); got != tt.want {
			t.Errorf("%v late: %d times as long, want %d", tt.late, got, tt.want)
		}
	}
}

// A follower that runs late waits longer before it considers the leader dead, but not
// without limit: the leader's death is still detected.
func TestLateNodeWaitsLonger(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.grow(3)
		c.settle()
		leader := c.leader()
		for _, id := range c.ids() {
			for range 3 {
				c.store(id).late.observe(time.Now(), 300*time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		for _, id := range c.ids() {
			s := c.store(id)
			if got := s.Members().LeaderTimeout(); got != 4*DefaultHeartbeatTimeout {
				t.Errorf("%s waits for %v", id, got)
			}
			if s != leader && s.raft.ReloadableConfig().HeartbeatTimeout != 4*DefaultHeartbeatTimeout {
				t.Errorf("%s has a heartbeat timeout of %v", id, s.raft.ReloadableConfig().HeartbeatTimeout)
			}
		}
		before := map[*Store]uint64{}
		for _, id := range c.ids() {
			before[c.store(id)] = c.store(id).Stats().LeaderChanges
		}
		c.net.Unplug(string(leader.opts.NodeID))
		time.Sleep(3 * DefaultHeartbeatTimeout)
		for _, id := range c.ids() {
			if s := c.store(id); s != leader && s.IsLeader() {
				t.Errorf("%s leads after %v", id, 3*DefaultHeartbeatTimeout)
			}
		}
		now := c.leader()
		if now == leader {
			t.Fatal("the same leads")
		}
		synctest.Wait()
		if got := now.Stats().LeaderChanges; got <= before[now] {
			t.Errorf("%d changes of the leader after %d", got, before[now])
		}
		time.Sleep(3 * latenessWindow)
		if got := now.Members().LeaderTimeout(); got != DefaultHeartbeatTimeout {
			t.Errorf("long after, it waits for %v", got)
		}
	})
}

func TestLeaderlessTimeIsMeasured(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.grow(3)
		c.settle()
		s := c.store("n3")
		if got := s.Members().Leaderless(); got != 0 {
			t.Errorf("without a leader for %v", got)
		}
		c.stop("n1")
		c.stop("n2")
		time.Sleep(10 * time.Second)
		if got := s.Members().Leaderless(); got < 7*time.Second || got > 10*time.Second {
			t.Errorf("without a leader for %v of 10s", got)
		}
	})
}

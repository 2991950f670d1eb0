package raftstore

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/meta"
)

func TestAFollowersCommandTakesNoLongerThanTheAgreement(t *testing.T) {
	inBubble(t, func(t *testing.T, c *testCluster) {
		c.grow(3)
		time.Sleep(time.Second) // all know who leads
		for i := range 30 {
			for _, id := range c.ids() {
				began := time.Now()
				propose(t, c.store(id), meta.NodeStarted{Node: meta.Node{ID: meta.NodeID(fmt.Sprint("m", i))}})
				if took := time.Since(began); took > 2*time.Millisecond {
					t.Errorf("%s: %v", id, took)
				}
				time.Sleep(time.Duration(i*7) * time.Millisecond)
			}
		}
	})
}

// nudged is a nudger in a world of its own, and what it sends.
type nudged struct {
	nudger
	term, commit atomic.Uint64 // of the leader
	mu           sync.Mutex
	sent         []string
	hold         chan struct{} // each message waits for a value
}

func newNudged() *nudged {
	n := &nudged{hold: make(chan struct{})}
	n.term.Store(2)
	n.commit.Store(5)
	n.nudger = nudger{
		followers: map[raft.ServerID]*follower{},
		agreed:    n.commit.Load,
		leads:     func(term uint64) bool { return term == n.term.Load() },
		send: func(id raft.ServerID, _ raft.ServerAddress, a *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) error {
			n.mu.Lock()
			n.sent = append(n.sent, fmt.Sprintf("%s term %d: after %d/%d, %d agreed", id, a.Term, a.PrevLogEntry, a.PrevLogTerm, a.LeaderCommitIndex))
			n.mu.Unlock()
			<-n.hold
			return nil
		},
	}
	return n
}

// take says that a follower has taken entries up to last, in a message that
// told it of commit.
func (n *nudged) take(id raft.ServerID, term, last, commit uint64) {
	n.took(id, "", &raft.AppendEntriesRequest{
		Term: term, LeaderCommitIndex: commit, Entries: []*raft.Log{{Index: last, Term: term}},
	}, &raft.AppendEntriesResponse{Success: true})
}

func (n *nudged) want(t *testing.T, lines ...string) {
	t.Helper()
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	slices.Sort(n.sent)
	if d := cmp.Diff(lines, n.sent); d != "" {
		t.Error(d)
	}
	n.sent = nil
}

func TestANudgeSaysOnlyWhatIsTrueForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNudged()
		n.take("a", 2, 4, 1) // behind what is agreed on: told of what it has
		n.take("b", 2, 9, 1) // ahead
		n.take("c", 2, 5, 5) // knows
		n.take("d", 1, 5, 1) // in another term than the one led in
		n.want(t, "a term 2: after 4/2, 4 agreed", "b term 2: after 9/2, 5 agreed")
		n.commit.Store(7)
		n.tell()
		n.take("a", 2, 6, 4) // one message at a time
		n.want(t)
		n.hold <- struct{}{}
		n.hold <- struct{}{}
		n.want(t, "a term 2: after 6/2, 6 agreed", "b term 2: after 9/2, 7 agreed")
		n.term.Store(3) // deposed
		n.hold <- struct{}{}
		n.hold <- struct{}{}
		n.take("a", 2, 8, 6)
		n.commit.Store(9)
		n.tell()
		n.want(t)
		n.take("a", 3, 9, 6) // leads again
		n.want(t, "a term 3: after 9/3, 9 agreed")
		n.take("a", 2, 12, 9) // late news of the old term
		n.hold <- struct{}{}
		n.commit.Store(12)
		n.tell()
		n.want(t)
		n.close()
		n.take("b", 3, 12, 1)
		n.want(t)
	})
}

package raftstore

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// silentAfter is how long a write may hang until a leader stops telling the
	// others that it is there: whatever waits for its disk, the library's heartbeats
	// go on, and nobody else would be elected.
	silentAfter = time.Second
	// awayCheck is how often it is looked whether a member that is away is still to
	// be sent anything.
	awayCheck = 250 * time.Millisecond
)

// errSilent keeps back what a leader with a hanging disk would send.
var errSilent = errors.New("the metadata's disk hangs")

// eagerTransport is the library's transport, but for two things.
//
// The library waits longer and longer between attempts to send entries to a
// member that is away, up to ten seconds, though its heartbeats go on. Here a
// failed attempt ends only when the member has answered a heartbeat, so the next
// one follows at once.
//
// And a leader whose disk hangs falls silent.
type eagerTransport struct {
	*raft.NetworkTransport
	stalled func(now time.Time) time.Duration
	stop    <-chan struct{}
	raft    atomic.Pointer[raft.Raft] // nil until it runs

	mu      sync.Mutex // guards answers
	answers map[raft.ServerID]chan struct{}
}

// answer returns a channel that is closed when a member answers a heartbeat.
func (t *eagerTransport) answer(id raft.ServerID) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	ch := t.answers[id]
	if ch == nil {
		ch = make(chan struct{})
		t.answers[id] = ch
	}
	return ch
}

func (t *eagerTransport) answered(id raft.ServerID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ch := t.answers[id]; ch != nil {
		close(ch)
		delete(t.answers, id)
	}
}

// AppendEntries implements raft.Transport.
func (t *eagerTransport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if t.stalled(time.Now()) > silentAfter {
		return errSilent
	}
	if heartbeat(args) {
		err := t.NetworkTransport.AppendEntries(id, target, args, resp)
		if err == nil {
			t.answered(id)
		}
		return err
	}
	answer := t.answer(id) // also one that comes during the attempt
	err := t.NetworkTransport.AppendEntries(id, target, args, resp)
	if err != nil {
		t.awaitReturn(id, target, answer)
	}
	return err
}

// AppendEntriesPipeline implements raft.Transport.
func (t *eagerTransport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, target)
	if err != nil {
		return nil, err
	}
	return silentPipeline{p, t.stalled}, nil
}

// silentPipeline is a pipeline of a leader that falls silent when its disk hangs.
type silentPipeline struct {
	raft.AppendPipeline
	stalled func(now time.Time) time.Duration
}

// AppendEntries implements raft.AppendPipeline.
func (p silentPipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if p.stalled(time.Now()) > silentAfter {
		return nil, errSilent
	}
	return p.AppendPipeline.AppendEntries(args, resp)
}

// heartbeat says whether a request brings nothing but the leader's name: the
// library's entries come with their place.
func heartbeat(a *raft.AppendEntriesRequest) bool {
	return len(a.Entries) == 0 && a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && a.LeaderCommitIndex == 0
}

// awaitReturn waits until a member has answered, for as long as this node leads
// and that is its place.
func (t *eagerTransport) awaitReturn(id raft.ServerID, target raft.ServerAddress, answer <-chan struct{}) {
	tick := time.NewTicker(awayCheck)
	defer tick.Stop()
	for {
		select {
		case <-answer:
			return
		case <-t.stop:
			return
		case <-tick.C:
			if !t.wanted(id, target) {
				return
			}
		}
	}
}

// wanted says whether a member is still to be sent entries at an address.
func (t *eagerTransport) wanted(id raft.ServerID, target raft.ServerAddress) bool {
	r := t.raft.Load()
	if r == nil || r.State() != raft.Leader {
		return false
	}
	for _, v := range r.GetConfiguration().Configuration().Servers {
		if v.ID == id {
			return v.Address == target
		}
	}
	return false
}

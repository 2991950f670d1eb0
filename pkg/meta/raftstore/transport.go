package raftstore

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// stalledAfter is how long a write may be in progress before this node, as the leader, stops
	// sending entries and heartbeats.
	stalledAfter = time.Second
	// awayCheck is how often a delayed error is reconsidered: whether this node still
	// leads, and the member is still one at that address.
	awayCheck = 250 * time.Millisecond
)

// errStalled fails what a leader with a stalled disk would send.
var errStalled = errors.New("a disk of this node has stalled: nothing is sent to followers until it responds")

// transport is the library's NetworkTransport behind one wrapper. It adds, alters and reorders no
// message, and answers none in a member's place. It connects to members rather than addresses, see
// memberAddress. It does three things that a network may do at any
// time, so no property of Raft depends on them; see ADR 69. It also closes a stuck pipeline, as a
// broken connection would.
//
//  1. AppendEntries fails at once while this node's own disk is stalled. The library
//     sends heartbeats from a goroutine beside the one that writes, so a leader that
//     can write nothing would stay leader forever (hashicorp/raft issue 503).
//  2. The error of a failed AppendEntries that carries entries or a commit index is
//     returned only when the member has answered a heartbeat. The library waits after
//     the n-th failure for 10 ms * 2^n, up to ten seconds, whether or not the member is
//     back. It calls AppendEntries from the goroutine that replicates to this one
//     member, which holds no lock and may wait for a network for as long.
//  3. Heartbeats fail once the store closes. The library handles them on goroutines of its
//     transport, also after Shutdown, and panics if one names a newer term that it cannot store.
type transport struct {
	*raft.NetworkTransport
	stalled func(now time.Time) time.Duration
	timeout time.Duration // of an answer
	stop    <-chan struct{}
	raft    atomic.Pointer[raft.Raft] // nil until it runs

	heartbeats sync.RWMutex // held while a heartbeat is handled; guards ended
	ended      bool

	mu      sync.Mutex // guards answers
	answers map[raft.ServerID]chan struct{}
}

// answer returns a channel that is closed when a member answers a heartbeat.
func (t *transport) answer(id raft.ServerID) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	ch := t.answers[id]
	if ch == nil {
		ch = make(chan struct{})
		t.answers[id] = ch
	}
	return ch
}

func (t *transport) answered(id raft.ServerID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ch := t.answers[id]; ch != nil {
		close(ch)
		delete(t.answers, id)
	}
}

// SetHeartbeatHandler implements raft.Transport.
func (t *transport) SetHeartbeatHandler(handle func(raft.RPC)) {
	t.NetworkTransport.SetHeartbeatHandler(func(rpc raft.RPC) {
		t.heartbeats.RLock()
		defer t.heartbeats.RUnlock()
		if t.ended {
			rpc.Respond(&raft.AppendEntriesResponse{}, raft.ErrRaftShutdown)
			return
		}
		handle(rpc)
	})
}

// endHeartbeats waits for the heartbeats being handled and fails later ones.
func (t *transport) endHeartbeats() {
	t.heartbeats.Lock()
	defer t.heartbeats.Unlock()
	t.ended = true
}

// AppendEntries implements raft.Transport.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if t.stalled(time.Now()) > stalledAfter {
		return errStalled
	}
	if heartbeat(args) {
		err := t.NetworkTransport.AppendEntries(id, memberAddress(id, target), args, resp)
		if err == nil {
			t.answered(id)
		}
		return err
	}
	answer := t.answer(id) // including one that arrives during the attempt
	err := t.NetworkTransport.AppendEntries(id, memberAddress(id, target), args, resp)
	if err != nil {
		t.awaitReturn(id, target, answer)
	}
	return err
}

// RequestVote implements raft.Transport.
func (t *transport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return t.NetworkTransport.RequestVote(id, memberAddress(id, target), args, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (t *transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return t.NetworkTransport.RequestPreVote(id, memberAddress(id, target), args, resp)
}

// InstallSnapshot implements raft.Transport.
func (t *transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.NetworkTransport.InstallSnapshot(id, memberAddress(id, target), args, resp, data)
}

// TimeoutNow implements raft.Transport.
func (t *transport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, memberAddress(id, target), args, resp)
}

// AppendEntriesPipeline implements raft.Transport.
func (t *transport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.NetworkTransport.AppendEntriesPipeline(id, memberAddress(id, target))
	if err != nil {
		return nil, err
	}
	return pipeline{p, t.stalled, t.timeout + t.timeout/4}, nil
}

// pipeline is the library's pipeline to a member, which fails while this node's disk is stalled,
// and when it is stuck. The library then falls back to transport.AppendEntries.
type pipeline struct {
	raft.AppendPipeline
	stalled func(now time.Time) time.Duration
	// acceptTimeout is how long a request may wait to be accepted: longer than the timeout of the answer
	// that may be in progress before it.
	acceptTimeout time.Duration
}

// AppendEntries implements raft.AppendPipeline.
func (p pipeline) AppendEntries(args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	if p.stalled(time.Now()) > stalledAfter {
		return nil, errStalled
	}
	// When an answer has failed, the library's consumer of answers ends, and its decoder waits to
	// pass on the next one. A request after that would wait here for the decoder forever, and so
	// would replication to this member, and Shutdown (raft 1.8.0, net_transport.go).
	stuck := time.AfterFunc(p.acceptTimeout, func() { _ = p.Close() })
	defer stuck.Stop()
	return p.AppendPipeline.AppendEntries(args, resp)
}

// heartbeat reports whether a request is a heartbeat, by the rule of the library's own transport:
// it carries no entry, no log position and no commit index.
func heartbeat(a *raft.AppendEntriesRequest) bool {
	return len(a.Entries) == 0 && a.PrevLogEntry == 0 && a.PrevLogTerm == 0 && a.LeaderCommitIndex == 0
}

// awaitReturn waits until a member has answered a heartbeat, as long as this node leads, the member
// is at that address, and the store is open.
func (t *transport) awaitReturn(id raft.ServerID, target raft.ServerAddress, answer <-chan struct{}) {
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

// wanted reports whether this node, as the leader, replicates to a member at an address.
func (t *transport) wanted(id raft.ServerID, target raft.ServerAddress) bool {
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

package raftstore

import (
	"sync"

	"github.com/hashicorp/raft"
)

// nudger tells followers at once what has been agreed on. The library tells them
// with the next entry, or after CommitTimeout: a command that a follower proposed
// would take that long, and so would everything that acts on the metadata.
//
// What it sends is a message without entries as the library itself sends it: the
// term, the last entry that the follower has taken in that term, and that what
// lies up to there is agreed on. Only a leader of that term sends it, and it says
// nothing of what lies behind that entry, so it is as true when it arrives late.
type nudger struct {
	send   func(raft.ServerID, raft.ServerAddress, *raft.AppendEntriesRequest, *raft.AppendEntriesResponse) error
	leads  func(term uint64) bool
	agreed func() uint64 // index up to which everything is agreed on

	mu        sync.Mutex // guards followers, and that nothing is sent after closed
	followers map[raft.ServerID]*follower
	closed    bool
	sending   sync.WaitGroup
}

// follower is what a member is known to hold. It is guarded by nudger.mu.
type follower struct {
	target raft.ServerAddress
	taken  raft.AppendEntriesRequest // a message without entries that the follower agrees with
	told   uint64                    // index up to which it was told that all is agreed on
	busy   bool                      // a message is under way
}

// took takes note of what a follower has taken.
func (n *nudger) took(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) {
	count := len(args.Entries)
	if !resp.Success || count == 0 {
		return
	}
	last := args.Entries[count-1]
	taken := raft.AppendEntriesRequest{
		RPCHeader: args.RPCHeader, Term: args.Term, PrevLogEntry: last.Index, PrevLogTerm: last.Term,
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.followers[id]
	if f == nil {
		f = &follower{}
		n.followers[id] = f
	}
	if taken.Term < f.taken.Term {
		return
	}
	if taken.Term > f.taken.Term {
		f.told = 0
	}
	f.target, f.taken = target, taken
	f.told = max(f.told, min(args.LeaderCommitIndex, last.Index))
	n.tellLocked(id, f)
}

// tell tells all followers. It does not block.
func (n *nudger) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, f := range n.followers {
		n.tellLocked(id, f)
	}
}

// tellLocked sends a follower what it was not told, one message at a time.
func (n *nudger) tellLocked(id raft.ServerID, f *follower) {
	args := f.taken
	// The order matters: what was agreed on while this node led in that term, and
	// still does, is true of the entries of that term.
	args.LeaderCommitIndex = min(n.agreed(), args.PrevLogEntry)
	if f.busy || n.closed || args.LeaderCommitIndex <= f.told || !n.leads(args.Term) {
		return
	}
	f.busy, f.told = true, args.LeaderCommitIndex
	target := f.target
	n.sending.Go(func() {
		_ = n.send(id, target, &args, &raft.AppendEntriesResponse{}) // without it, the library does it later
		n.mu.Lock()
		defer n.mu.Unlock()
		f.busy = false
		n.tellLocked(id, f)
	})
}

// close returns when nothing is sent any more. What is under way must have been
// cut, or be about to end.
func (n *nudger) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.sending.Wait()
}

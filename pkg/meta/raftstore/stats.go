package raftstore

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/meta"
)

// StallLimit is how long a write may take before the disk counts as failed.
const StallLimit = 5 * time.Second

// Stats describe the metadata on this node.
type Stats struct {
	IsLeader      bool
	Term          uint64
	LastIndex     uint64 // of the log
	CommitIndex   uint64
	AppliedIndex  uint64
	SnapshotIndex uint64
	// LastContact is the time since this node heard from the leader; 0 on the leader itself, -1
	// for never.
	LastContact time.Duration
	// LeaderChanges is how often the leader changed since the start.
	LeaderChanges uint64
	// Elections is how often this node stood for election since the start.
	Elections uint64
	// Late is how late this process runs: see Members.LeaderTimeout.
	Late       time.Duration
	Voters     []meta.NodeID
	StoreBytes int64  // of the log file
	StoreFree  int64  // part of them in unused pages, which are reused
	Applies    Timing // batches of commands applied to the state
	Writes     Timing // writes to the log, each synced
	// Stalled is how long a write has been in progress. Beyond StallLimit the disk counts as
	// failed, although it has not reported an error.
	Stalled time.Duration
}

// Writing returns since when the oldest unfinished write to the disk has been in progress. Unlike
// Stats it never touches the disk.
func (s *Store) Writing() (since time.Time, ok bool) { return s.guard.oldest() }

// Stats returns the store's statistics. It does not wait for the log's disk.
func (s *Store) Stats() Stats {
	now := time.Now()
	out := Stats{
		IsLeader: s.IsLeader(),
		Term:     s.raft.CurrentTerm(), LastIndex: s.raft.LastIndex(),
		CommitIndex: s.raft.CommitIndex(), AppliedIndex: s.raft.AppliedIndex(),
		Applies: s.machine.applied.stats(), Writes: s.guard.writes.stats(),
		LeaderChanges: s.changes.Load(), Elections: s.elections.Load(), Late: s.late.usual(now),
		Stalled: s.guard.stalled(now),
	}
	out.SnapshotIndex, _ = strconv.ParseUint(s.raft.Stats()["last_snapshot_index"], 10, 64)
	if at := s.raft.LastContact(); !out.IsLeader {
		out.LastContact = now.Sub(at)
		if at.IsZero() {
			out.LastContact = -1
		}
	}
	for _, v := range s.raft.GetConfiguration().Configuration().Servers {
		if v.Suffrage == raft.Voter {
			out.Voters = append(out.Voters, meta.NodeID(v.ID))
		}
	}
	if !s.opts.InMemory {
		if info, err := os.Stat(filepath.Join(s.opts.Dir, logFile)); err == nil {
			out.StoreBytes = info.Size()
		}
	}
	if s.free != nil {
		out.StoreFree = s.free()
	}
	return out
}

package raftstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Member is a member of the Raft group.
type Member struct {
	ID      meta.NodeID
	Address string // for other nodes
	Voter   bool   // otherwise it follows without a vote
}

// Configuration lists the members by ID.
type Configuration struct {
	Members []Member
}

// Find returns a member.
func (c Configuration) Find(id meta.NodeID) (Member, bool) {
	i := slices.IndexFunc(c.Members, func(m Member) bool { return m.ID == id })
	if i < 0 {
		return Member{}, false
	}
	return c.Members[i], true
}

// Voters returns the members that vote.
func (c Configuration) Voters() (out []meta.NodeID) {
	for _, m := range c.Members {
		if m.Voter {
			out = append(out, m.ID)
		}
	}
	return out
}

// Members manages the Raft group. Only the leader can change it: others return failure.NotController. A
// change that returned nil is committed. After an error whose fate is not refused it may still
// be. The methods are safe for concurrent use; changes are serialized.
type Members struct{ s *Store }

// Members returns the members of the Raft group.
func (s *Store) Members() Members { return Members{s} }

// Configuration returns the members as known on this node.
func (m Members) Configuration() Configuration {
	return configurationOf(m.s.raft.GetConfiguration().Configuration())
}

// AddVoter adds a voter or changes a voter's address. A new voter must still have the metadata
// it once had: see Remove.
func (m Members) AddVoter(ctx context.Context, id meta.NodeID, address string) error {
	return m.change(ctx, "add voter", id, func() raft.IndexFuture {
		return m.s.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(address), 0, m.s.opts.ApplyTimeout)
	})
}

// AddNonvoter adds a member without a vote, or changes a member's address: a voter stays a voter.
func (m Members) AddNonvoter(ctx context.Context, id meta.NodeID, address string) error {
	return m.change(ctx, "add non-voter", id, func() raft.IndexFuture {
		return m.s.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(address), 0, m.s.opts.ApplyTimeout)
	})
}

// Promote gives a member a vote.
func (m Members) Promote(ctx context.Context, id meta.NodeID) error {
	was, ok := m.Configuration().Find(id)
	if !ok {
		return fmt.Errorf("promote %s: %w", id, failure.NodeNotFound)
	}
	return m.AddVoter(ctx, id, was.Address)
}

// Remove permanently removes a node. A leader may remove itself and then stops leading. A node
// that lost its metadata may rejoin under its name only after it was removed, because its old
// vote confirmed entries that it no longer holds.
func (m Members) Remove(ctx context.Context, id meta.NodeID) error {
	if err := m.dispensable(id); err != nil {
		return fmt.Errorf("remove %s: %w", id, err)
	}
	return m.change(ctx, "remove", id, func() raft.IndexFuture {
		return m.s.raft.RemoveServer(raft.ServerID(id), 0, m.s.opts.ApplyTimeout)
	})
}

// dispensable returns why id cannot lose its vote, or nil.
func (m Members) dispensable(id meta.NodeID) error {
	c := m.Configuration()
	was, ok := c.Find(id)
	switch {
	case !m.s.IsLeader():
		return failure.NotController
	case !ok:
		return failure.NodeNotFound
	case was.Voter && len(c.Voters()) == 1:
		return failure.LastVoter
	}
	return nil
}

// Transfer transfers leadership to the most up-to-date of the other voters. It returns when that
// one has been asked to take over; LeaderChanged signals when it has. After an error this node
// may still lead.
func (m Members) Transfer(ctx context.Context) error {
	err := m.s.ready(ctx)
	if err == nil && len(m.Configuration().Voters()) < 2 {
		err = failure.LastVoter
	}
	if err == nil {
		err = m.s.flights.request(ctx, m.s.raft.LeadershipTransfer)
	}
	if err != nil {
		return fmt.Errorf("transfer metadata leadership: %w", err)
	}
	return nil
}

// LeaderContact returns when this node last heard from a leader; meaningless on the leader. The
// zero time: never since it was opened.
func (m Members) LeaderContact() time.Time { return m.s.raft.LastContact() }

// LastIndex returns the index of the last log entry on this node, committed or not.
func (m Members) LastIndex() uint64 { return m.s.raft.LastIndex() }

// Campaign starts an election now, as if the leader had transferred leadership to this node:
// without waiting for a missed heartbeat and without a pre-vote. Call it only if the leader is
// known to be dead. It returns when the election has started.
func (m Members) Campaign() error {
	if c, ok := m.Configuration().Find(m.s.opts.NodeID); !ok || !c.Voter {
		return failure.NotVoter
	}
	return elect(m.s.transport.Transport, m.s.opts.NodeID)
}

func (m Members) change(ctx context.Context, what string, id meta.NodeID, start func() raft.IndexFuture) error {
	if !meta.ValidNodeID(id) {
		return fmt.Errorf("%s: %w: node %q", what, failure.InvalidName, id)
	}
	err := m.s.ready(ctx)
	if err == nil {
		err = m.s.guard.reserve.admit(m.s.opts.NodeID, true, 0)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, id, err)
	}
	if err := m.s.flights.request(ctx, func() raft.Future { return start() }); err != nil {
		return fmt.Errorf("%s %s: %w", what, id, err)
	}
	return nil
}

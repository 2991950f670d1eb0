package raftstore

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// frees reports whether a command is accepted while the reserve is incomplete: it frees space,
// or the cluster cannot serve its partitions without it. Any other is refused until there is
// space.
func frees(c meta.Command) bool {
	switch c := c.(type) {
	case meta.DeleteTopic, meta.PurgeTopics, meta.DeleteChannel, meta.RemoveNode, // they free space
		meta.SavePositions, meta.DropSaved, meta.CatchUp, // moving channels with them frees space
		meta.StartReassign, meta.FinishReassign, // to other disks
		meta.NodeStarted, meta.SetNodeState, meta.SetNodeIntent, meta.SetNodeDisk,
		meta.ElectLeaders, meta.AlterISR, meta.ReportSuspects, meta.YieldLeader:
		return true
	case meta.AlterTopic:
		was, will := c.Was, c.Will
		return was.RetentionAge != will.RetentionAge || was.RetentionBytes != will.RetentionBytes || was.MaxBytes != will.MaxBytes ||
			was.RetentionTrash != will.RetentionTrash || was.TTL != will.TTL
	case meta.PauseTopic:
		return !c.Paused
	case meta.AlterChannel:
		return c.Paused != nil && !*c.Paused
	case meta.RecordAct: // a refused act need not be recorded
		return c.Act.Status < http.StatusBadRequest || c.Act.Status >= http.StatusInternalServerError
	}
	return false
}

// admit returns why the node cannot accept a command of n bytes for lack of space, or nil. frees
// means that the command frees space.
func (r *reserve) admit(node meta.NodeID, frees bool, bytes int) error {
	if r.restore(time.Now()) || frees && r.takes(bytes) {
		return nil
	}
	return fmt.Errorf("%w on node %s: %s", failure.MetadataDiskFull, node, r.state())
}

// Admits returns why this node, as the leader, would refuse a command of n bytes for lack of disk space now, or nil.
func (m Members) Admits(c meta.Command, bytes int) error {
	return m.s.guard.reserve.admit(m.s.opts.NodeID, frees(c), bytes)
}

// FullDisk describes the remaining space on the metadata's disk of this node, with the
// directory, while commands are refused for lack of space; "" otherwise. It does not wait for
// the disk.
func (m Members) FullDisk() string {
	if g := m.s.guard; g != nil {
		return g.reserve.state()
	}
	return ""
}

// TendReserve restores the reserve of disk space, if it was released, and reports
// whether it is complete. A leader without a reserve refuses most commands; a
// follower restores it only here. It writes to the disk.
func (m Members) TendReserve() bool { return m.s.guard.reserve.restore(time.Now()) }

// YieldLead transfers the metadata leadership to another voter, whether or not there
// is space for commands here. It does nothing if this node does not lead, or is the
// only voter. After an error, this node may still lead.
func (m Members) YieldLead(ctx context.Context) error {
	if m.s.raft.State() != raft.Leader || len(m.Configuration().Voters()) < 2 {
		return nil
	}
	if err := m.s.flights.request(ctx, m.s.raft.LeadershipTransfer); err != nil {
		return fmt.Errorf("transfer metadata leadership: %w", err)
	}
	return nil
}

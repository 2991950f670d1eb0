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

// frees reports whether a command is accepted while the reserve is not whole: it frees space, or
// the cluster cannot keep its partitions served without it. Any other waits for space.
func frees(c meta.Command) bool {
	switch c := c.(type) {
	case meta.DeleteTopic, meta.PurgeTopics, meta.DeleteChannel, meta.RemoveNode, // they free space
		meta.SavePositions, meta.DropSaved, // channels are moved with them, to free space
		meta.StartReassign, meta.FinishReassign, // to other disks
		meta.NodeStarted, meta.SetNodeState, meta.SetNodeIntent, meta.SetNodeDisk,
		meta.ElectLeaders, meta.AlterISR, meta.ReportSuspects, meta.YieldLeader:
		return true
	case meta.AlterTopic:
		p := c.Patch
		return p.RetentionAge != nil || p.RetentionBytes != nil || p.MaxBytes != nil || p.RetentionTrash != nil || p.TTL != nil
	case meta.PauseTopic:
		return !c.Paused
	case meta.AlterChannel:
		return c.Paused != nil && !*c.Paused
	case meta.RecordAct: // what was refused need not be recorded
		return c.Act.Status < http.StatusBadRequest || c.Act.Status >= http.StatusInternalServerError
	}
	return false
}

// admit says why a command of so many bytes, which frees space or not, cannot be taken by the node
// for lack of space.
func (r *reserve) admit(node meta.NodeID, frees bool, bytes int) error {
	if r.restore(time.Now()) || frees && r.takes(bytes) {
		return nil
	}
	return fmt.Errorf("%w on node %s: %s", failure.MetadataDiskFull, node, r.state())
}

// FullDisk says what is left of the disk of the metadata on this node, with the directory, while
// commands are refused for lack of space; "" otherwise. It does not wait for the disk's log.
func (m Members) FullDisk() string {
	if g := m.s.guard; g != nil {
		return g.reserve.state()
	}
	return ""
}

// TendReserve makes the reserve of disk space again, if it was spent, and says
// whether it is whole. A node that leads and has no reserve refuses most commands;
// one that follows would not otherwise make it again. It writes to the disk.
func (m Members) TendReserve() bool { return m.s.guard.reserve.restore(time.Now()) }

// YieldLead hands the lead of the metadata to another voter, whether or not there is
// space for commands here. It does nothing where this node does not lead, or is the
// only voter. Where it returns an error, this node may lead on.
func (m Members) YieldLead(ctx context.Context) error {
	if m.s.raft.State() != raft.Leader || len(m.Configuration().Voters()) < 2 {
		return nil
	}
	if err := m.s.flights.request(ctx, m.s.raft.LeadershipTransfer); err != nil {
		return fmt.Errorf("transfer metadata leadership: %w", err)
	}
	return nil
}

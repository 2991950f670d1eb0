package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

func (f *fake) DescribeNode(_ context.Context, id meta.NodeID) (api.NodeDetail, error) {
	if id != "n1" {
		return api.NodeDetail{}, fmt.Errorf("node %s: %w", id, failure.NodeNotFound)
	}
	n := f.info.Nodes[0]
	n.Intent, n.Leaders, n.Replicas, n.Hostname = "decommission", 1, 2, "host-1"
	return api.NodeDetail{
		Node: n,
		Partitions: []api.NodePartition{
			{Topic: "orders", Partition: 0, Leader: true, InSync: true, Removing: true},
			{Topic: "orders", Partition: 1, Adding: true},
		},
		Left:      api.Progress{Leaders: 1, Replicas: 2, Moving: 1, Bytes: 1 << 30, BytesPerSecond: 50 << 20, TimeLeft: api.Duration(20 * time.Second), TimeLeftMS: 20_000},
		Troubles:  []api.Trouble{{Kind: "no_room", Topic: "orders", Partition: 1, Nodes: []string{"n1"}, What: "no eligible node for the replica"}},
		IfStopped: []api.Trouble{{Kind: "min_isr", Topic: "orders", Nodes: []string{"n1", "n2"}, What: "the in-sync replicas would fall below min_isr"}},
	}, nil
}

func (f *fake) DrainNode(_ context.Context, id meta.NodeID, req api.DrainNode) error {
	if req.DryRun {
		return nil
	}
	return f.locked(fmt.Sprintf("drain %s force=%t stopping=%t", id, req.Force, req.Stopping))
}

func (f *fake) UndrainNode(_ context.Context, id meta.NodeID) error {
	return f.locked("undrain " + string(id))
}

func (f *fake) DecommissionNode(_ context.Context, id meta.NodeID, force, dryRun bool) error {
	if dryRun {
		return nil
	}
	return f.locked(fmt.Sprintf("decommission %s force=%t", id, force))
}

func (f *fake) RemoveNode(_ context.Context, id meta.NodeID, loseDeleted, dryRun bool) error {
	return f.locked(fmt.Sprintf("remove %s lose=%t dry=%t", id, loseDeleted, dryRun))
}

func (f *fake) DescribePartition(_ context.Context, topic string, i int) (api.PartitionDetail, error) {
	t, err := f.Topic(topic)
	switch {
	case err != nil:
		return api.PartitionDetail{}, err
	case i >= len(t.Partitions):
		return api.PartitionDetail{}, failure.PartitionNotFound
	}
	return api.PartitionDetail{
		Partition: api.Partition{
			Topic: topic, Partition: i, Leader: "n2", Epoch: 4, Replicas: []string{"n2", "n1", "n3"}, ISR: []string{"n2"},
			LogStart: 2, CommittedEnd: 120, LogEnd: 121, Bytes: 4096, Adding: []string{"n1"}, Removing: []string{"n3"},
		},
		Copies: []api.Copy{
			{Node: "n2", InSync: true, Answered: true, LogStart: 2, CommittedEnd: 120, LogEnd: 121, Bytes: 4096},
			{
				Node: "n1", Answered: true, LogEnd: 20, Bytes: 512,
				Seen: true, Connected: true, State: "catching up", Acked: 20, Lag: 101, LagBytes: 3584, BytesPerSecond: 1024,
			},
			{Node: "n3"},
		},
		Troubles: []api.Trouble{},
		Left:     api.Progress{Moving: 1, Bytes: 3584, BytesPerSecond: 1024, TimeLeft: api.Duration(4 * time.Second), TimeLeftMS: 4_000},
	}, nil
}

func (f *fake) TransferLeader(_ context.Context, topic string, i int, to meta.NodeID) error {
	return f.locked(fmt.Sprintf("transfer %s/%d to %q", topic, i, to))
}

func (f *fake) ElectLeader(_ context.Context, topic string, i int, to meta.NodeID, unclean bool) error {
	return f.locked(fmt.Sprintf("elect %s/%d to %q unclean=%t", topic, i, to, unclean))
}

func (f *fake) MovePartition(_ context.Context, topic string, i int, target []meta.NodeID, dryRun bool) error {
	if dryRun {
		return nil
	}
	return f.locked(fmt.Sprintf("move %s/%d to %v", topic, i, target))
}

func (f *fake) CancelMove(_ context.Context, topic string, i int) error {
	return f.locked(fmt.Sprintf("cancel the move of %s/%d", topic, i))
}

func (f *fake) Copies(_ context.Context, topic string, i int) (*api.Repair, error) {
	return &api.Repair{
		Topic: topic, Partition: i,
		Copies: []api.RepairCopy{
			{
				Node: "n1", Leader: true, InSync: true, Open: true, LogStart: 2, CommittedEnd: 120, LogEnd: 121, Damaged: true,
				Damage: []api.DamageRange{{File: "d/topics/orders.9/0/00000000000000000000.log", Position: 512, From: 20, Next: 24}},
			},
			{Node: "n2", Damage: []api.DamageRange{}},
		},
		SetAside: []api.SetAsideCopy{{
			Node: "n4", Name: "orders.9.0.4", Path: "d/quarantine/orders.9.0.4", CommittedEnd: 130, LogEnd: 131, Waits: true,
			Why: "the node no longer holds a replica of the partition", Damage: []api.DamageRange{},
		}},
		MissingNodes: []string{"n3"},
	}, nil
}

func (f *fake) DiscardCopy(_ context.Context, topic string, i int, node meta.NodeID, name string) error {
	return f.locked(fmt.Sprintf("discard %s of %s/%d on %s", name, topic, i, node))
}

func (f *fake) AcceptLoss(_ context.Context, topic string, i int, node meta.NodeID) error {
	return f.locked(fmt.Sprintf("accept the loss of %s/%d on %s", topic, i, node))
}

func (f *fake) FitReplicas(_ context.Context, topic string) (int, error) {
	return 0, f.locked("fit the replicas of " + topic)
}

func (f *fake) PlanBalance() api.Balance {
	return api.Balance{
		Nodes:   []api.NodeLoad{{ID: "n1", State: "up", Zone: "a", Leaders: 3, Preferred: 2, Replicas: 5}, {ID: "n2", State: "up", Leaders: 1, Preferred: 2, Replicas: 3}},
		Leaders: []api.LeaderMove{{Topic: "orders", Partition: 1, From: "n1", To: "n2"}},
		Moves:   []api.Move{{Topic: "orders", Partition: 0, From: []string{"n1", "n3"}, To: []string{"n2", "n3"}}},
	}
}

func (f *fake) StartBalance(_ context.Context, req api.StartBalance) (api.Balance, error) {
	b := f.PlanBalance()
	if req.DryRun {
		return b, nil
	}
	b.Started = true
	return b, f.locked(fmt.Sprintf("balance leaders=%t replicas=%t limit=%d", req.Leaders, req.Replicas, req.Limit))
}

func (f *fake) Raft(context.Context) api.Raft {
	return api.Raft{Leader: "n1", Term: 7, Voters: 3, Tolerance: 1, Members: []api.RaftMember{
		{
			ID: "n1", Address: "10.0.0.1:4152", Voter: true, Answered: true,
			Leader: true, Term: 7, LastIndex: 120, CommitIndex: 120, AppliedIndex: 119, SnapshotIndex: 64, StoreBytes: 65536,
		},
		{
			ID: "n2", Address: "10.0.0.2:4152", Voter: true, Answered: true, Term: 7, LastIndex: 120, CommitIndex: 118, AppliedIndex: 118,
			LastContact: api.Duration(12 * time.Millisecond), LastContactMS: 12, StoreBytes: 32768,
		},
		{ID: "n3", Address: "10.0.0.3:4152"},
	}}
}

func (f *fake) TransferController(context.Context) error { return f.locked("transfer the controller") }

package operate

import (
	"context"
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
)

// nodeCopies are one node's copies of a partition.
type nodeCopies struct {
	Live     api.RepairCopy     `json:"live"`
	SetAside []api.SetAsideCopy `json:"set_aside"`
}

var askCopies = question[copyArgs, nodeCopies]{"copies", func(o *Node, _ context.Context, a copyArgs) (nodeCopies, error) {
	out := nodeCopies{Live: api.RepairCopy{Damage: []api.DamageRange{}}}
	var err error
	if out.SetAside, err = o.host.Quarantine.Asides.Of(a.PartitionID); err != nil {
		return out, err
	}
	hp, err := o.replicaHere(a.PartitionID)
	if err != nil {
		return out, nil // it holds no replica, or cannot open it
	}
	l := hp.Replica.Log()
	out.Live = api.RepairCopy{
		Open: true, LogStart: uint64(l.Start()), CommittedEnd: uint64(l.CommittedEnd()), LogEnd: uint64(l.End()),
		Damaged: hp.Replica.Damaged(), Damage: o.host.Quarantine.DamageOf(hp), Refusing: hp.Replica.Refusing(),
		Lost: o.host.Quarantine.Lost(o.host.Lookup(a.Topic), hp),
	}
	return out, nil
}}

// repairArgs ask a node to carry out an operator's decision about its copies.
type repairArgs struct {
	meta.PartitionID
	Discard string `json:"discard,omitempty"` // name of a set-aside copy; "": accept the loss
}

var askRepair = question[repairArgs, forward.Nothing]{"repair", func(o *Node, _ context.Context, a repairArgs) (forward.Nothing, error) {
	if a.Discard != "" {
		return forward.Nothing{}, o.host.Quarantine.Asides.Discard(a.PartitionID, a.Discard)
	}
	hp, err := o.replicaHere(a.PartitionID)
	if err != nil {
		return forward.Nothing{}, err
	}
	return forward.Nothing{}, o.host.Quarantine.ForgetLoss(o.host.Lookup(a.Topic), hp)
}}

// Copies lists the nodes' copies of a partition: intact, damaged or set aside.
func (o *Contents) Copies(ctx context.Context, topic string, i int) (*api.Repair, error) {
	s, t, p, err := o.node.find(topic, i)
	if err != nil {
		return nil, err
	}
	out := &api.Repair{Topic: topic, Partition: i, Copies: []api.RepairCopy{}, SetAside: []api.SetAsideCopy{}}
	a := copyArgs{PartitionID: idOf(t, i)}
	answers := askAll(ctx, o.node, askCopies, o.node.present(), func(meta.NodeID) copyArgs { return a })
	for n := range s.Nodes() {
		id := n.ID
		c, ok := answers[id]
		if !ok {
			out.MissingNodes = append(out.MissingNodes, string(id))
			continue
		}
		if slices.Contains(p.Replicas, id) {
			c.Live.Node, c.Live.Leader, c.Live.InSync = string(id), p.Leader == id, slices.Contains(p.ISR, id)
			out.Copies = append(out.Copies, c.Live)
		}
		out.SetAside = append(out.SetAside, c.SetAside...)
	}
	return out, nil
}

// DiscardCopy permanently deletes a set-aside copy of a partition from a node. It returns
// failure.NoSetAside if there is none of that name.
func (o *Contents) DiscardCopy(ctx context.Context, topic string, i int, node meta.NodeID, name string) error {
	if name == "" {
		return failure.NoSetAside
	}
	return o.repair(ctx, topic, i, node, name)
}

// AcceptLoss ends the health report data_lost for a partition whose only replica lost its
// directory. For any other the error is failure.NoLoss.
func (o *Contents) AcceptLoss(ctx context.Context, topic string, i int, node meta.NodeID) error {
	return o.repair(ctx, topic, i, node, "")
}

func (o *Contents) repair(ctx context.Context, topic string, i int, node meta.NodeID, discard string) error {
	s, t, _, err := o.node.find(topic, i)
	if err != nil {
		return err
	}
	if s.Node(node) == nil {
		return fmt.Errorf("node %s: %w", node, failure.NodeNotFound)
	}
	a := repairArgs{idOf(t, i), discard}
	_, err = askRepair.ask(ctx, o.node, node, a)
	return err
}

package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// LiveCopy is the replica of a partition that a node serves or follows with.
type LiveCopy struct {
	LogStart     seq.Offset
	CommittedEnd seq.Offset
	LogEnd       seq.Offset
	Damaged      bool               // a part of it cannot be read
	Refusing     bool               // it refuses its leader, which lacks committed messages of this copy
	Lost         bool               // what it held is gone, and no other replica is in sync
	Damage       []commitlog.Damage // the ranges that are known
}

// NodeCopies is what one node has of a partition.
type NodeCopies struct {
	Node           string
	Replica        bool // it is to hold one
	Leader, InSync bool
	Live           *LiveCopy // nil: none is open
	SetAside       []host.SetAside
}

var askCopies = question[copyArgs, NodeCopies]{"copies", func(o *Node, _ context.Context, a copyArgs) (out NodeCopies, err error) {
	if out.SetAside, err = o.host.Quarantine.SetAside(a.PartitionID); err != nil {
		return out, err
	}
	hp, err := o.replicaHere(a.PartitionID)
	if err != nil {
		return out, nil // it holds no replica, or cannot open it
	}
	l := hp.Replica.Log()
	out.Live = &LiveCopy{
		LogStart: l.Start(), CommittedEnd: l.CommittedEnd(), LogEnd: l.End(), Damaged: hp.Replica.Damaged(), Refusing: hp.Replica.Refusing(),
		Lost: o.host.Quarantine.Lost(o.host.Lookup(a.Topic), hp), Damage: o.host.Quarantine.DamageOf(hp),
	}
	return out, nil
}}

// repairArgs ask a node to do what an operator decided about its copies.
type repairArgs struct {
	controller.PartitionID
	Discard string `json:"discard,omitempty"` // the name of a set-aside copy; "": the loss is accepted
}

var askRepair = question[repairArgs, forward.Nothing]{"repair", func(o *Node, _ context.Context, a repairArgs) (forward.Nothing, error) {
	if a.Discard != "" {
		return forward.Nothing{}, o.host.Quarantine.Discard(a.PartitionID, a.Discard)
	}
	hp, err := o.replicaHere(a.PartitionID)
	if err != nil {
		return forward.Nothing{}, err
	}
	return forward.Nothing{}, o.host.Quarantine.ForgetLoss(o.host.Lookup(a.Topic), hp)
}}

// Copies lists what the nodes have of a partition, intact, damaged or set aside: each
// node that holds a replica or a set-aside copy. silent are the nodes that did not answer.
func (o *Contents) Copies(ctx context.Context, topic string, i int) (all []NodeCopies, silent []string, err error) {
	s, t, p, err := o.node.find(topic, i)
	if err != nil {
		return nil, nil, err
	}
	a := copyArgs{PartitionID: idOf(t, i)}
	answers := askAll(ctx, o.node, askCopies, o.node.present(), func(meta.NodeID) copyArgs { return a })
	for n := range s.Nodes() {
		c, ok := answers[n.ID]
		if !ok {
			silent = append(silent, string(n.ID))
			continue
		}
		c.Node, c.Replica, c.Leader, c.InSync = string(n.ID), slices.Contains(p.Replicas, n.ID), p.Leader == n.ID, slices.Contains(p.ISR, n.ID)
		if c.Replica || len(c.SetAside) > 0 {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b NodeCopies) int { return strings.Compare(a.Node, b.Node) })
	slices.Sort(silent)
	return all, silent, nil
}

// DiscardCopy deletes a set-aside copy of a partition from a node, for good, whatever
// it holds. It is ErrNoSetAside if there is none of that name.
func (o *Contents) DiscardCopy(ctx context.Context, topic string, i int, node meta.NodeID, name string) error {
	if name == "" {
		return host.ErrNoSetAside
	}
	return o.repair(ctx, topic, i, node, name)
}

// AcceptLoss ends that the health reports data_lost for a partition whose only replica
// lost its directory. It is ErrNoLoss for any other.
func (o *Contents) AcceptLoss(ctx context.Context, topic string, i int, node meta.NodeID) error {
	return o.repair(ctx, topic, i, node, "")
}

func (o *Contents) repair(ctx context.Context, topic string, i int, node meta.NodeID, discard string) error {
	s, t, _, err := o.node.find(topic, i)
	if err != nil {
		return err
	}
	if s.Node(node) == nil {
		return fmt.Errorf("node %s: %w", node, meta.ErrNodeNotFound)
	}
	a := repairArgs{idOf(t, i), discard}
	_, err = askRepair.ask(ctx, o.node, node, a)
	return err
}

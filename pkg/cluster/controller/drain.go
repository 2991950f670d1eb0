package controller

import (
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// DrainError lists the partitions that need a node.
type DrainError struct {
	Node     meta.NodeID
	Troubles []Trouble // TroubleDrain, TroubleMinISR
}

// Error names the first partition.
func (e *DrainError) Error() string {
	t := e.Troubles[0]
	what := "no other in-sync replica is available to lead"
	if t.Kind == TroubleMinISR {
		what = "the in-sync replicas would fall below min_isr"
	}
	text := fmt.Sprintf("%v: %s: %s/%d: %s", failure.CannotDrain, e.Node, t.Topic, t.Partition, what)
	if more := len(e.Troubles) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// Unwrap returns failure.CannotDrain.
func (e *DrainError) Unwrap() error { return failure.CannotDrain }

// CheckDrain returns nil if the node can be drained: each partition that it leads has another
// in-sync replica that is up. With stopping, no partition may additionally fall below its min
// ISR when the node's replicas are missing. Otherwise the error is a *DrainError with every
// partition concerned. An operator may force the drain.
func CheckDrain(s *meta.State, nodes Conditions, id meta.NodeID, stopping bool) error {
	if s.Node(id) == nil {
		return fmt.Errorf("node %s: %w", id, failure.NodeNotFound)
	}
	var out []Trouble
	partitions(s, func(at meta.PartitionID, t *meta.Topic, p *meta.Partition) bool {
		others := 0
		for _, n := range p.ISR {
			if n != id && nodes[n] == Up {
				others++
			}
		}
		switch {
		case p.Leader == id && others == 0:
			out = append(out, Trouble{TroubleDrain, at, p.ISR})
		case stopping && slices.Contains(p.ISR, id) && len(p.ISR) == t.Config.MinISR:
			out = append(out, Trouble{TroubleMinISR, at, p.ISR})
		}
		return true
	})
	if len(out) > 0 {
		return &DrainError{id, out}
	}
	return nil
}

// Handover lists the elections that transfer every leadership of a node to another in-sync
// replica that is up. A cleanly stopping node proposes them itself, with reason restart; the
// controller does the same for a draining one.
func Handover(s *meta.State, nodes Conditions, id meta.NodeID, reason string) []meta.Election {
	var out []meta.Election
	load := leaderships(s)
	partitions(s, func(at meta.PartitionID, _ *meta.Topic, p *meta.Partition) bool {
		if p.Leader != id {
			return true
		}
		if next, ok := pick(p, nodes, load); ok && nodes[next] == Up {
			out = append(out, election(at, p, next, reason))
			load[next]++
			load[id]--
		}
		return true
	})
	return out
}

// Transfer returns the election that an operator requests: of node to, or, if to is "", of the
// node that the controller would choose. An unclean election may name any replica, and accepts the
// loss of the messages that this replica lacks; it is only made on explicit request.
func Transfer(s *meta.State, nodes Conditions, id meta.PartitionID, to meta.NodeID, unclean bool) (meta.Election, error) {
	p, err := find(s, id)
	if err != nil {
		return meta.Election{}, err
	}
	if to == "" && !unclean {
		if next, ok := pick(p, nodes, leaderships(s)); ok {
			to = next
		}
	}
	switch {
	case to == "" && unclean:
		return meta.Election{}, fmt.Errorf("%s/%d: unclean, without a node: %w", id.Topic, id.Partition, failure.NotInISR)
	case to == "" && p.Leader != "":
		return meta.Election{}, fmt.Errorf("%s/%d: %w (leader %s, in sync %v)", id.Topic, id.Partition, failure.NoOtherInSync, p.Leader, p.ISR)
	case to == "":
		return meta.Election{}, fmt.Errorf("%s/%d: %w (in sync %v)", id.Topic, id.Partition, failure.NoneInSync, p.ISR)
	case s.Node(to) == nil:
		return meta.Election{}, fmt.Errorf("node %s: %w", to, failure.NodeNotFound)
	case !slices.Contains(p.ISR, to) && (!unclean || !slices.Contains(p.Replicas, to)):
		return meta.Election{}, fmt.Errorf("node %s: %w", to, failure.NotInISR)
	case !unclean && !p.Electable(to):
		return meta.Election{}, fmt.Errorf("node %s: %w", to, failure.Suspect)
	case nodes[to] == Gone:
		return meta.Election{}, fmt.Errorf("node %s: %w", to, failure.NodeNotUp)
	}
	e := election(id, p, to, reasonTransfer)
	e.Unclean = unclean
	return e, nil
}

// Remaining counts the partitions of which a node still holds a replica. A decommissioned node
// without replicas can be removed.
func Remaining(s *meta.State, id meta.NodeID) int {
	n := 0
	partitions(s, func(_ meta.PartitionID, _ *meta.Topic, p *meta.Partition) bool {
		if slices.Contains(p.Replicas, id) {
			n++
		}
		return true
	})
	return n
}

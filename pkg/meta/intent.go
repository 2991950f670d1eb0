package meta

import (
	"fmt"

	"github.com/brokerd/brokerd/pkg/failure"
)

// NodeIntent is an operator's request for a node, whether it is up or not. It survives restarts
// of the node and changes of the controller. The latest of drain and decommission wins.
type NodeIntent string

// The operators' intents for a node.
const (
	IntentNone         NodeIntent = ""
	IntentDrain        NodeIntent = "drain"        // it leads nothing
	IntentDecommission NodeIntent = "decommission" // it leads nothing, and its replicas move away
)

func (i NodeIntent) valid() bool {
	return i == IntentNone || i == IntentDrain || i == IntentDecommission
}

// SetNodeIntent sets an operator's request for a node. It makes a node that is up draining, and
// up again when the request is cancelled; a node that is down drains when it returns. Nothing
// else changes: the controller acts on it.
type SetNodeIntent struct {
	ID     NodeID     `json:"id"`
	Intent NodeIntent `json:"intent,omitempty"`
}

// Kind implements Command.
func (SetNodeIntent) Kind() Kind { return KindSetNodeIntent }

// Validate implements Command.
func (c SetNodeIntent) Validate() error {
	if !ValidNodeID(c.ID) {
		return fmt.Errorf("%w: node %q", failure.InvalidName, c.ID)
	}
	if !c.Intent.valid() {
		return fmt.Errorf("%w: intent %q", failure.InvalidConfig, c.Intent)
	}
	return nil
}

func (c SetNodeIntent) apply(s *State, r *Result) error {
	was := s.Node(c.ID)
	if was == nil {
		return failure.NodeNotFound
	}
	n := *was
	n.Intent = c.Intent
	if n.State != NodeDown {
		n.State = n.whenAlive()
	}
	s.replaceNode(&n)
	r.Node = &n
	return nil
}

// whenAlive returns the node's state if it is alive.
func (n *Node) whenAlive() NodeState {
	if n.Intent != IntentNone {
		return NodeDraining
	}
	return NodeUp
}

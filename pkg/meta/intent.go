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

func (c SetNodeIntent) validate() error {
	if err := checkNode(c.ID); err != nil {
		return err
	}
	if !c.Intent.valid() {
		return fmt.Errorf("%w: intent %q", failure.InvalidConfig, c.Intent)
	}
	return nil
}

func (c SetNodeIntent) apply(s *State, r *Result) error {
	was, err := s.found(c.ID)
	if err != nil {
		return err
	}
	n := *was
	n.Intent = c.Intent
	if n.State != NodeDown {
		n.State = n.whenAlive()
	}
	r.Node = s.replaceNode(&n)
	return nil
}

// whenAlive returns the node's state if it is alive.
func (n *Node) whenAlive() NodeState {
	if n.Intent != IntentNone {
		return NodeDraining
	}
	return NodeUp
}

package meta

import "fmt"

// NodeIntent is what an operator wants of a node, whether it is up or not. It
// outlives restarts of the node and changes of the controller. There is one at a
// time: of a drain and a decommission, the later request wins.
type NodeIntent string

// What an operator may want of a node.
const (
	IntentNone         NodeIntent = ""
	IntentDrain        NodeIntent = "drain"        // it leads nothing
	IntentDecommission NodeIntent = "decommission" // it leads nothing, and its replicas move away
)

func (i NodeIntent) valid() bool {
	return i == IntentNone || i == IntentDrain || i == IntentDecommission
}

// SetNodeIntent says what an operator wants of a node. A node that is up becomes
// draining by it, and up again when nothing is wanted any more; one that is down
// stays down, and drains when it comes back. Nothing else changes: the controller
// acts on it.
type SetNodeIntent struct {
	ID     NodeID     `json:"id"`
	Intent NodeIntent `json:"intent,omitempty"`
}

// Kind implements Command.
func (SetNodeIntent) Kind() Kind { return KindSetNodeIntent }

// Validate implements Command.
func (c SetNodeIntent) Validate() error {
	if !ValidNodeID(c.ID) {
		return fmt.Errorf("%w: node %q", ErrInvalidName, c.ID)
	}
	if !c.Intent.valid() {
		return fmt.Errorf("%w: intent %q", ErrInvalidConfig, c.Intent)
	}
	return nil
}

func (c SetNodeIntent) apply(s *State, r *Result) error {
	was := s.Node(c.ID)
	if was == nil {
		return ErrNodeNotFound
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

// whenAlive returns the state of the node if it is alive.
func (n *Node) whenAlive() NodeState {
	if n.Intent != IntentNone {
		return NodeDraining
	}
	return NodeUp
}

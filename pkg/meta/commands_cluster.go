package meta

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
)

// InitCluster names the cluster. An existing name stays. The feature level is the highest that is
// supported by the program of the node that forms the cluster and by every node that registered
// before.
type InitCluster struct {
	ID    string      `json:"id"`
	Level level.Level `json:"level,omitempty"`
}

func (c InitCluster) validate() error {
	if len(c.ID) == 0 || len(c.ID) > MaxNameLength || !plain(c.ID) {
		return fmt.Errorf("%w: cluster %q", failure.InvalidName, c.ID)
	}
	return nil
}

func (c InitCluster) apply(s *State, r *Result) error {
	if r.Existed = s.cluster.ID != ""; !r.Existed {
		s.cluster = Cluster(c)
		if len(s.nodes) > 0 {
			s.cluster.Level = min(c.Level, Attainable(s))
		}
	}
	return nil
}

// SetSettings changes cluster-wide settings: all of them or none. The value "" restores the
// default.
type SetSettings struct {
	Values map[string]string `json:"values"`
}

func (c SetSettings) validate() error { return validateSettings(c.Values) }

func (c SetSettings) apply(s *State, _ *Result) error {
	s.settings = s.settings.with(c.Values)
	return nil
}

// NodeStarted registers a node or a new start of its process. Incarnation, State and Intent of
// the Node are ignored: the incarnation grows by one, the state becomes up unless the node is
// draining, the intent stays. Every partition that the node leads gets a new epoch, because a
// restarted leader starts a new term.
//
// After a loss of power, which is an unclean end and a new boot id, the node also leaves the
// in-sync set of every partition of a topic that does not sync always or has an ordered channel,
// unless it is the only member. This is one command, so there is no moment in which the node is up
// and could be elected for what it lost.
//
// A node with an empty disk leaves every in-sync set, even as the only member: such a partition has
// no leader until an operator names one. The same applies if its Disk is Outdated.
//
// A program that does not support the feature level of the cluster is refused with failure.FeatureLevel.
type NodeStarted struct {
	Node Node `json:"node"`
	// Unclean: the previous process did not stop cleanly. The node repeats this until the command
	// was accepted.
	Unclean bool `json:"unclean,omitempty"`
	// Empty: the node's disk has lost everything that it acknowledged. The node repeats this
	// until the command was accepted.
	Empty bool `json:"empty,omitempty"`
	// Follows are the earlier starts of Node.Disk that may be the last registered one.
	Follows []string `json:"follows,omitempty"`
	// Marked is the last start of the disk that was Outdated and after which every replica on it was marked.
	Marked string `json:"marked,omitempty"`
}

func (c NodeStarted) validate() error { return cmp.Or(c.Node.validate(), c.validateDisk()) }

func (c NodeStarted) apply(s *State, r *Result) error {
	was := s.Node(c.Node.ID)
	if was == nil && len(s.nodes) >= maxNodes {
		return fmt.Errorf("%w: %d nodes", failure.LimitReached, maxNodes)
	}
	if err := checkLevel(s.cluster.Level, c.Node.Levels); err != nil {
		return fmt.Errorf("node %s: %w", c.Node.ID, err)
	}
	n := c.Node
	n.Incarnation, n.State, n.Intent, n.LostPower, n.DiskFull, n.Outdated = 1, NodeUp, IntentNone, false, false, false
	if was != nil {
		n.ID = was.ID // use the string shared by the topics
		n.Incarnation = was.Incarnation + 1
		n.Intent = was.Intent
		n.Outdated = was.Disk.Outdated(n.Disk, c.Follows) || was.Outdated && was.Disk.Start != c.Marked
		r.DiskBefore = was.Disk
		n.Disk.Starts = was.Disk.numbered(n.Disk)
		n.LostPower = lostPower(was, &c) || c.Unclean && was.LostPower // a start may be registered twice
		n.State = n.whenAlive()
		if was.State == NodeDraining {
			n.State = NodeDraining
		}
	}
	r.Node = s.replaceNode(&n)
	lost := lossOf(was, &c)
	s.trash = TrashOf(s).update(func(t *Topic) *Topic { return lost.apply(t, n.ID, s.index) })
	s.topics.update(func(t *Topic) *Topic {
		next := lost.apply(t, n.ID, s.index)
		if next != nil {
			t = next
		}
		if slices.ContainsFunc(t.Partitions, func(p Partition) bool { return p.Leader == n.ID }) {
			return newTerms(t, n.ID, s.index)
		}
		return next
	})
	return nil
}

// newTerms returns the topic with a new epoch for each partition that id leads.
func newTerms(t *Topic, id NodeID, index uint64) *Topic {
	next := *t
	next.Version = index
	next.Partitions = slices.Clone(t.Partitions)
	for i := range next.Partitions {
		if p := &next.Partitions[i]; p.Leader == id {
			p.Epoch++
			p.Version++
		}
	}
	return &next
}

// SetNodeState sets a node up, down or draining. It changes no leadership. A node with the intent
// to be drained is draining when it is up.
type SetNodeState struct {
	ID    NodeID    `json:"id"`
	State NodeState `json:"state"`
	// Incarnation of the process; 0: any. A report about an earlier process is refused with
	// failure.StaleIncarnation.
	Incarnation uint64 `json:"incarnation,omitempty"`
}

func (c SetNodeState) validate() error {
	if err := checkNode(c.ID); err != nil {
		return err
	}
	if !c.State.valid() {
		return fmt.Errorf("%w: node state %q", failure.InvalidConfig, c.State)
	}
	return nil
}

func (c SetNodeState) apply(s *State, r *Result) error {
	was, err := s.found(c.ID)
	if c.Incarnation != 0 {
		was, err = s.started(c.ID, c.Incarnation)
	}
	if err != nil {
		return err
	}
	n := *was
	if n.State = c.State; n.State == NodeUp {
		n.State = n.whenAlive()
	}
	r.Node = s.replaceNode(&n)
	return nil
}

// SetNodeDisk reports whether the disk of a node accepts publishes. It changes no leadership: a
// node with a full disk transfers them itself.
type SetNodeDisk struct {
	ID   NodeID `json:"id"`
	Full bool   `json:"full,omitempty"`
	// Incarnation of the reporting process. Another is refused with failure.StaleIncarnation.
	Incarnation uint64 `json:"incarnation"`
}

func (c SetNodeDisk) validate() error {
	return checkNode(c.ID)
}

func (c SetNodeDisk) apply(s *State, r *Result) error {
	was, err := s.started(c.ID, c.Incarnation)
	if err != nil {
		return err
	}
	n := *was
	n.DiskFull = c.Full
	r.Node = s.replaceNode(&n)
	return nil
}

// RemoveNode removes a node. A node with a replica is refused with failure.NodeInUse, one that is not
// down and not being decommissioned, or no longer, with failure.NodeActive, and one with the only copy
// of a topic in the trash with failure.OnlyCopies, unless LoseDeleted is set. Its copies of topics in
// the trash are removed with it.
type RemoveNode struct {
	ID          NodeID `json:"id"`
	LoseDeleted bool   `json:"lose_deleted,omitempty"`
}

func (c RemoveNode) validate() error {
	return checkNode(c.ID)
}

func (c RemoveNode) apply(s *State, r *Result) error {
	i, ok := s.findNode(c.ID)
	if !ok {
		return failure.NodeNotFound
	}
	for t := range s.topics.all() {
		for k := range t.Partitions {
			p := &t.Partitions[k]
			if slices.Contains(p.Replicas, c.ID) || slices.Contains(p.Adding, c.ID) || slices.Contains(p.Removing, c.ID) {
				return fmt.Errorf("%w: %s holds %s/%d", failure.NodeInUse, c.ID, t.Name, k)
			}
		}
	}
	if n := s.nodes[i]; n.Intent != IntentDecommission && n.State != NodeDown {
		return fmt.Errorf("node %s: %w", c.ID, failure.NodeActive)
	}
	if _, only := TrashOf(s).Of(c.ID); len(only) > 0 && !c.LoseDeleted {
		return fmt.Errorf("node %s: %w: %s", c.ID, failure.OnlyCopies, strings.Join(only, " "))
	}
	s.trash, r.Purged = TrashOf(s).withoutNode(c.ID)
	s.nodes = slices.Delete(s.nodes, i, i+1)
	return nil
}

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

package meta

import (
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
)

// MaxElections is the maximum number of leaders in one ElectLeaders.
const MaxElections = 1024

// Reasons of an election, for Election.Reason.
const (
	ReasonNodeDown = "node_down" // the leader died
	ReasonRestart  = "restart"   // the leader's node stops cleanly, or a replica of an offline partition is back
	ReasonDrain    = "drain"     // the leader's node is being drained
	ReasonDisk     = "disk"      // the leader's disk is full
	ReasonClock    = "clock"     // the clock of the leader's node differs from the others'
	ReasonTransfer = "transfer"  // the leader's replica is being removed, or an operator asked
	ReasonBalance  = "balance"   // back to the preferred leader
	ReasonRepair   = "repair"    // the leader stays, and its damaged log was repaired
)

// Election sets the leader of one partition.
type Election struct {
	Topic       string      `json:"topic"`
	Incarnation Incarnation `json:"incarnation,omitempty"` // 0: any
	Partition   int         `json:"partition"`
	Version     uint64      `json:"version"`          // of the partition: the compare-and-swap token
	Leader      NodeID      `json:"leader,omitempty"` // "": the partition is offline
	Reason      string      `json:"reason,omitempty"`
	// Unclean lets any replica lead, in sync or not, suspect or not. A replica that could not be
	// elected otherwise becomes the whole in-sync set: what it lacks is lost. An operator's
	// decision.
	Unclean bool `json:"unclean,omitempty"`
}

// ElectLeaders gives partitions a leader and a new epoch, independently of each other:
// Result.Failed lists the refused ones.
type ElectLeaders struct {
	Elections []Election `json:"elections"`
}

func (c ElectLeaders) validate() error {
	if len(c.Elections) > MaxElections {
		return fmt.Errorf("%w: %d elections, limit is %d", failure.LimitReached, len(c.Elections), MaxElections)
	}
	for i := range c.Elections {
		e := &c.Elections[i]
		if err := checkTopic(e.Topic); err != nil {
			return err
		}
		if e.Leader != "" && !ValidNodeID(e.Leader) {
			return fmt.Errorf("%w: node %q", failure.InvalidName, e.Leader)
		}
		if len(e.Reason) > maxTextLength {
			return fmt.Errorf("%w: reason of %d bytes is too long", failure.LimitReached, len(e.Reason))
		}
	}
	return nil
}

func (c ElectLeaders) apply(s *State, r *Result) error {
	r.each(len(c.Elections), func(i int) error { return c.Elections[i].apply(s) })
	return nil
}

// each carries out n independent parts of a command, and notes those that are refused.
func (r *Result) each(n int, apply func(i int) error) {
	for i := range n {
		if err := apply(i); err != nil {
			if r.Failed == nil {
				r.Failed = make([]error, n)
			}
			r.Failed[i] = err
		}
	}
}

func (e *Election) apply(s *State) error {
	t, p, err := s.editPartition(partitionRef{e.Topic, e.Incarnation, e.Partition}, e.Version)
	if err != nil {
		return err
	}
	p.Epoch++
	switch {
	case e.Leader == "", p.Electable(e.Leader):
	case s.Node(e.Leader) == nil:
		return fmt.Errorf("node %s: %w", e.Leader, failure.NodeNotFound)
	case e.Unclean && slices.Contains(p.Replicas, e.Leader):
		p.ISR, p.Unclean = s.intern(e.Leader), p.Epoch
		p.absolve(e.Leader)
	case slices.Contains(p.ISR, e.Leader):
		return fmt.Errorf("node %s: %w", e.Leader, failure.Suspect)
	default:
		return fmt.Errorf("node %s: %w", e.Leader, failure.NotInISR)
	}
	p.Leader = s.intern(e.Leader)[0]
	s.topics.put(t)
	return nil
}

// AlterISR changes the in-sync set of a partition at its leader's request.
type AlterISR struct {
	Topic       string      `json:"topic"`
	Incarnation Incarnation `json:"incarnation,omitempty"` // 0: any
	Partition   int         `json:"partition"`
	Epoch       seq.Epoch   `json:"epoch"`   // of the leader that requests the change
	Version     uint64      `json:"version"` // of the partition: the compare-and-swap token
	ISR         []NodeID    `json:"isr"`
	// Joiner is the only member that may be new, and JoinerIncarnation the process start that showed
	// the leader its log. A later start may hold less and is refused with failure.StaleIncarnation.
	// "": no replica joins. Any other new member is refused with failure.InvalidISR.
	Joiner            NodeID `json:"joiner,omitempty"`
	JoinerIncarnation uint64 `json:"joiner_incarnation,omitempty"`
}

func (c AlterISR) validate() error {
	if err := checkTopic(c.Topic); err != nil {
		return err
	}
	if len(c.ISR) == 0 || len(c.ISR) > 2*maxReplicas {
		return fmt.Errorf("%w: %d nodes", failure.InvalidISR, len(c.ISR))
	}
	for i, id := range c.ISR {
		if slices.Contains(c.ISR[:i], id) {
			return fmt.Errorf("%w: duplicate node %q", failure.InvalidISR, id)
		}
	}
	if c.Joiner != "" && !slices.Contains(c.ISR, c.Joiner) {
		return fmt.Errorf("%w: joiner %q missing", failure.InvalidISR, c.Joiner)
	}
	return nil
}

func (c AlterISR) apply(s *State, r *Result) error {
	t, p, err := s.editPartition(partitionRef{c.Topic, c.Incarnation, c.Partition}, c.Version)
	if err != nil {
		return err
	}
	if c.Epoch != p.Epoch {
		return fmt.Errorf("epoch %d, current is %d: %w", c.Epoch, p.Epoch, failure.StaleEpoch)
	}
	for _, id := range c.ISR {
		if !slices.Contains(p.Replicas, id) {
			return fmt.Errorf("%w: %q is not a replica", failure.InvalidISR, id)
		}
		if id != c.Joiner && !slices.Contains(p.ISR, id) {
			return fmt.Errorf("%w: %q joins without a process start that showed its log", failure.InvalidISR, id)
		}
	}
	if p.Leader != "" && !slices.Contains(c.ISR, p.Leader) {
		return fmt.Errorf("%w: leader %s missing", failure.InvalidISR, p.Leader)
	}
	if c.Joiner != "" {
		if _, err := s.started(c.Joiner, c.JoinerIncarnation); err != nil {
			return err
		}
	}
	p.ISR = s.intern(c.ISR...)
	p.absolve(p.Leader) // the others compare logs with the leader
	r.Topic = s.topics.put(t)
	return nil
}

type partitionRef struct {
	topic       string
	incarnation Incarnation
	partition   int
}

// edit returns a copy of a topic, and the partition in that copy to change.
func (ref partitionRef) edit(s *State) (*Topic, *Partition, error) {
	t, err := s.edit(ref.topic, ref.incarnation)
	if err != nil {
		return nil, nil, err
	}
	if ref.partition < 0 || ref.partition >= len(t.Partitions) {
		return nil, nil, fmt.Errorf("%s/%d: %w", ref.topic, ref.partition, failure.PartitionNotFound)
	}
	t.Partitions = slices.Clone(t.Partitions)
	return t, &t.Partitions[ref.partition], nil
}

// editPartition returns the result of partitionRef.edit, with the partition's version already
// increased from the given one.
func (s *State) editPartition(ref partitionRef, version uint64) (*Topic, *Partition, error) {
	t, p, err := ref.edit(s)
	if err != nil {
		return nil, nil, err
	}
	if version != p.Version {
		return nil, nil, fmt.Errorf("%s/%d: version %d, current is %d: %w", ref.topic, ref.partition, version, p.Version, failure.StaleVersion)
	}
	p.Version++
	return t, p, nil
}

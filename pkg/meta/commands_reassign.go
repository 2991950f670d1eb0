package meta

import (
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/failure"
)

// A reassignment gives a partition other replicas, a step at a time, and all of
// it is in the metadata, so that any controller can continue with it:
//
//	StartReassign    Replicas = target, then those that go; Adding, Removing; Before
//	AlterISR         the leader takes the new replicas into the in-sync set
//	ElectLeaders     if the leader is one that goes
//	FinishReassign   Replicas = target
//
// Nothing is removed before FinishReassign, which is refused while it would leave fewer good copies
// than before.

// Moving reports whether the partition is being reassigned.
func (p *Partition) Moving() bool { return len(p.Adding)+len(p.Removing) > 0 }

// Target returns the intended replicas of the partition: all current ones if it is not being
// reassigned. The slice must not be changed.
func (p *Partition) Target() []NodeID {
	return p.Replicas[: len(p.Replicas)-len(p.Removing) : len(p.Replicas)-len(p.Removing)]
}

// held returns the replicas that hold data or will continue to hold it, except those that the
// reassignment in progress adds.
func (p *Partition) held() []NodeID { return minus(p.Replicas, p.Adding) }

// UnderReplicated reports whether a replica that is not just being created is not in sync.
func (p *Partition) UnderReplicated() bool {
	return slices.ContainsFunc(p.Replicas, func(id NodeID) bool {
		return !slices.Contains(p.ISR, id) && !slices.Contains(p.Adding, id)
	})
}

// MoveReady returns nil if FinishReassign of the partition would be accepted, or otherwise the
// reason.
func (p *Partition) MoveReady() error {
	target := p.Target()
	waits := minus(p.Adding, p.ISR)
	if len(minus(p.Removing, p.ISR)) < len(p.Removing) {
		waits = minus(target, p.ISR) // a good copy is removed: all others must be good
	}
	switch {
	case !p.Moving():
		return fmt.Errorf("%w: no reassignment in progress", failure.InvalidAssignment)
	case len(waits) > 0:
		return fmt.Errorf("%w: %v", failure.NotInISR, waits)
	case p.Leader != "" && !slices.Contains(target, p.Leader):
		return fmt.Errorf("%w: replica %s is to be removed but still leads", failure.InvalidAssignment, p.Leader)
	case len(minus(p.ISR, p.Removing)) == 0:
		return fmt.Errorf("%w: no in-sync replica would remain", failure.InvalidISR)
	}
	return nil
}

// StartReassign sets the target replicas of a partition and replaces a reassignment in
// progress. The same replicas in another order only change the preferred leader, which
// completes at once.
type StartReassign struct {
	Topic       string      `json:"topic"`
	Incarnation Incarnation `json:"incarnation,omitempty"` // 0: any
	Partition   int         `json:"partition"`
	Version     uint64      `json:"version"` // of the partition: the compare-and-swap token
	Target      []NodeID    `json:"target"`  // preferred leader first
}

func (c StartReassign) validate() error {
	if err := checkTopic(c.Topic); err != nil {
		return err
	}
	if len(c.Target) == 0 || len(c.Target) > maxReplicas {
		return fmt.Errorf("%w: %d replicas", failure.InvalidAssignment, len(c.Target))
	}
	for i, id := range c.Target {
		if err := checkNode(id); err != nil {
			return err
		}
		if slices.Contains(c.Target[:i], id) {
			return fmt.Errorf("%w: duplicate node %q", failure.InvalidAssignment, id)
		}
	}
	return nil
}

func (c StartReassign) apply(s *State, r *Result) error {
	t, p, err := s.editPartition(partitionRef{c.Topic, c.Incarnation, c.Partition}, c.Version)
	if err != nil {
		return err
	}
	for _, id := range c.Target {
		if _, err := s.found(id); err != nil {
			return err
		}
	}
	if len(c.Target) < t.Config.MinISR {
		return fmt.Errorf("%w: %d replicas, below min_isr %d", failure.InvalidAssignment, len(c.Target), t.Config.MinISR)
	}
	// Replicas with data stay until the end: the previous ones, and those that a move in progress
	// has already brought into sync.
	hold, before := p.held(), p.Before
	if !p.Moving() {
		before = p.Replicas
	}
	for _, id := range p.ISR {
		if !slices.Contains(hold, id) {
			hold = append(hold, id)
		}
	}
	adding, removing := minus(c.Target, hold), minus(hold, c.Target)
	if len(c.Target)+len(removing) > 2*maxReplicas {
		return fmt.Errorf("%w: %d replicas during the reassignment", failure.LimitReached, len(c.Target)+len(removing))
	}
	p.Replicas = s.intern(slices.Concat(c.Target, removing)...)
	p.Adding, p.Removing, p.Before = s.intern(adding...), s.intern(removing...), nil
	if p.Moving() {
		p.Before = s.intern(before...)
	}
	r.Topic = s.topics.put(t)
	return nil
}

// FinishReassign removes the old replicas of a reassignment. It is refused unless each added
// replica is in sync, the leader stays, and, if a removed replica is in sync, all remaining
// ones are.
type FinishReassign struct {
	Topic       string      `json:"topic"`
	Incarnation Incarnation `json:"incarnation,omitempty"` // 0: any
	Partition   int         `json:"partition"`
	Version     uint64      `json:"version"` // of the partition: the compare-and-swap token
}

func (c FinishReassign) validate() error {
	return checkTopic(c.Topic)
}

func (c FinishReassign) apply(s *State, r *Result) error {
	t, p, err := s.editPartition(partitionRef{c.Topic, c.Incarnation, c.Partition}, c.Version)
	if err != nil {
		return err
	}
	if err := p.MoveReady(); err != nil {
		return fmt.Errorf("%s/%d: %w", c.Topic, c.Partition, err)
	}
	p.ISR = minus(p.ISR, p.Removing)
	p.absolve()
	p.Replicas = slices.Clone(p.Target())
	p.Adding, p.Removing, p.Before = nil, nil, nil
	r.Topic = s.topics.put(t)
	return nil
}

// minus returns a new slice of the elements of a that are not in b.
func minus(a, b []NodeID) []NodeID {
	var out []NodeID
	for _, id := range a {
		if !slices.Contains(b, id) {
			out = append(out, id)
		}
	}
	return out
}

// validMove checks a snapshot's reassignment: replicas to be removed are at the end of the list,
// after those that stay.
func validMove(p *Partition) error {
	stay := len(p.Replicas) - len(p.Removing)
	if stay < 1 || !slices.Equal(p.Replicas[stay:], p.Removing) || len(minus(p.Adding, p.Replicas[:stay])) > 0 || p.Moving() != (len(p.Before) > 0) {
		return fmt.Errorf("%w: replicas %v, adding %v, removing %v, before %v", failure.InvalidAssignment, p.Replicas, p.Adding, p.Removing, p.Before)
	}
	return nil
}

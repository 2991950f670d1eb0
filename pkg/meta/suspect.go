package meta

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
)

// maxSuspects is the maximum number of replicas in one ReportSuspects.
const maxSuspects = 1024

// Suspect is an in-sync replica that may have lost acknowledged records: its log was truncated or
// is damaged, or another replica proved to hold more. It is elected only if every in-sync replica
// is suspect and none ranks above it, and the leader removes it from the in-sync set. It rejoins
// like any follower, once a leader has compared logs with it.
type Suspect struct {
	Node    NodeID     `json:"node"`
	Epoch   seq.Epoch  `json:"epoch"` // of its last intact batch
	End     seq.Offset `json:"end"`   // of its log
	Damaged bool       `json:"damaged,omitempty"`
	Missing bool       `json:"missing,omitempty"` // it is empty, and is never elected
}

// compare ranks two suspects by how much they hold: the larger holds more. Acknowledged records are
// in every in-sync log, so of two logs without damage the one with the higher last epoch, or the
// longer one of the same epoch, holds every acknowledged record of the other.
func (s Suspect) compare(o Suspect) int {
	return cmp.Or(
		cmp.Compare(truth(o.Missing), truth(s.Missing)),
		cmp.Compare(truth(o.Damaged), truth(s.Damaged)),
		cmp.Compare(s.Epoch, o.Epoch),
		cmp.Compare(s.End, o.End),
	)
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// SuspectOf returns the entry of a suspect replica.
func (p *Partition) SuspectOf(id NodeID) (Suspect, bool) {
	i := slices.IndexFunc(p.Suspects, func(s Suspect) bool { return s.Node == id })
	if i < 0 {
		return Suspect{}, false
	}
	return p.Suspects[i], true
}

// Electable reports whether a replica may become the leader without an operator: it is in sync, and
// if it is suspect, all in-sync replicas are and none holds more.
func (p *Partition) Electable(id NodeID) bool {
	if !slices.Contains(p.ISR, id) {
		return false
	}
	s, suspect := p.SuspectOf(id)
	if !suspect {
		return true
	}
	for _, other := range p.ISR {
		o, too := p.SuspectOf(other)
		if !too || o.compare(s) > 0 {
			return false
		}
	}
	return !s.Missing
}

// absolve drops the suspects that are no longer in sync, and those in clear.
func (p *Partition) absolve(clear ...NodeID) {
	p.Suspects = slices.DeleteFunc(slices.Clone(p.Suspects), func(s Suspect) bool {
		return !slices.Contains(p.ISR, s.Node) || slices.Contains(clear, s.Node)
	})
	if len(p.Suspects) == 0 {
		p.Suspects = nil // as decoded from a snapshot
	}
}

// suspect adds a suspect, and ends its leadership if it leads.
func (p *Partition) suspect(s Suspect) {
	p.absolve(s.Node)
	p.Suspects = append(p.Suspects, s)
	p.Version++
	if p.Leader == s.Node {
		p.Leader = ""
		p.Epoch++
	}
}

// SuspectReplica names one of the reporting node's replicas. Its Node is ignored.
type SuspectReplica struct {
	Topic       string      `json:"topic"`
	Incarnation Incarnation `json:"incarnation,omitempty"` // 0: any
	Partition   int         `json:"partition"`
	Suspect
}

// ReportSuspects reports which replicas of a node are suspect, independently of each other:
// Result.Failed lists the refused ones. A report about a replica that is not in sync, or is the
// only one in sync, changes nothing. A suspect leader is deposed, so that another is elected.
type ReportSuspects struct {
	Node NodeID `json:"node"`
	// Incarnation of the process that found them. If the node has started again, it reports itself:
	// failure.StaleIncarnation.
	Incarnation uint64           `json:"incarnation"`
	Replicas    []SuspectReplica `json:"replicas"`
}

func (c ReportSuspects) validate() error {
	if err := checkNode(c.Node); err != nil {
		return err
	}
	if len(c.Replicas) > maxSuspects {
		return fmt.Errorf("%w: %d suspects, limit is %d", failure.LimitReached, len(c.Replicas), maxSuspects)
	}
	for i := range c.Replicas {
		if err := checkTopic(c.Replicas[i].Topic); err != nil {
			return err
		}
	}
	return nil
}

func (c ReportSuspects) apply(s *State, r *Result) error {
	n, err := s.started(c.Node, c.Incarnation)
	if err != nil {
		return err
	}
	r.each(len(c.Replicas), func(i int) error {
		item := c.Replicas[i]
		item.Node = n.ID
		return item.apply(s)
	})
	return nil
}

func (c *SuspectReplica) apply(s *State) error {
	t, p, err := partitionRef{c.Topic, c.Incarnation, c.Partition}.edit(s)
	if err != nil {
		return err
	}
	if was, known := p.SuspectOf(c.Node); known && was == c.Suspect {
		return nil // if it leads, this was known at its election
	}
	if len(p.ISR) > 1 && slices.Contains(p.ISR, c.Node) {
		p.suspect(c.Suspect)
		s.topics.put(t)
	}
	return nil
}

// YieldLeader transfers the leadership to an in-sync replica that was found to hold records which
// the leader lacks. The leader proposes it itself, and becomes suspect. A replica that has left the
// in-sync set meanwhile may have set its log aside: then the leader stays, in a new epoch, and
// compares logs again. A replica that was moved to another node has no log: failure.NotInISR. Then the
// leader must have itself elected, because its term has ended.
type YieldLeader struct {
	Topic       string      `json:"topic"`
	Incarnation Incarnation `json:"incarnation,omitempty"` // 0: any
	Partition   int         `json:"partition"`
	Epoch       seq.Epoch   `json:"epoch"` // of the leader that yields
	To          NodeID      `json:"to"`
	// LastEpoch and End are the leader's own, from before its epoch.
	LastEpoch seq.Epoch  `json:"last_epoch"`
	End       seq.Offset `json:"end"`
}

func (c YieldLeader) validate() error {
	return cmp.Or(checkTopic(c.Topic), checkNode(c.To))
}

func (c YieldLeader) apply(s *State, r *Result) error {
	t, p, err := partitionRef{c.Topic, c.Incarnation, c.Partition}.edit(s)
	switch {
	case err != nil:
		return err
	case c.Epoch != p.Epoch || p.Leader == "":
		return fmt.Errorf("epoch %d, current is %d: %w", c.Epoch, p.Epoch, failure.StaleEpoch)
	case c.To == p.Leader || !slices.Contains(p.Replicas, c.To):
		return fmt.Errorf("node %s: %w", c.To, failure.NotInISR)
	}
	if slices.Contains(p.ISR, c.To) {
		p.suspect(Suspect{Node: p.Leader, Epoch: c.LastEpoch, End: c.End}) // which ends the epoch
		p.Leader = s.intern(c.To)[0]
	} else {
		p.Epoch++
		p.Version++
	}
	r.Topic = s.topics.put(t)
	return nil
}

package controller

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// moves takes the next step of every reassignment in progress, and starts those needed by
// decommissioned nodes and by topics with an automatic number of replicas, within the limits of
// o. A move continues when the added replicas are in sync: first leadership leaves a removed
// replica, then the replica is removed. A decommissioned node need not be alive: other nodes
// have its data.
func moves(s *meta.State, nodes Conditions, o Options) ([]meta.Command, []Trouble) {
	w := &works{s: s, nodes: nodes, opts: o.WithDefaults(), slots: newSlots(s), load: s.Load(), lead: leaderships(s), leaving: leaving(s)}
	for t := range s.Topics() {
		if c := fit(s, t); c.Replicas+c.MinISR > 0 {
			w.commands = append(w.commands, c)
		}
	}
	partitions(s, func(id meta.PartitionID, t *meta.Topic, p *meta.Partition) bool {
		before := len(w.commands)
		if !w.proceed(id, p) && (p.Moving() || len(w.leaving) > 0) {
			w.evacuate(id, p)
		}
		if !p.Moving() && len(w.commands) == before {
			w.raise(id, t, p)
		}
		return true
	})
	return append(batches(w.elections, w.opts.Elections), w.commands...), w.troubles
}

// works is the state of a round of moves being decided.
type works struct {
	s       *meta.State
	nodes   Conditions
	opts    Options
	slots   *slots
	load    map[meta.NodeID]meta.Load
	lead    map[meta.NodeID]int
	leaving map[meta.NodeID]bool

	elections []meta.Election
	commands  []meta.Command
	troubles  []Trouble
}

// leaving returns the nodes being decommissioned.
func leaving(s *meta.State) map[meta.NodeID]bool {
	out := map[meta.NodeID]bool{}
	for n := range s.Nodes() {
		if n.Intent == meta.IntentDecommission {
			out[n.ID] = true
		}
	}
	return out
}

// proceed performs the next step of a move, if there is one.
func (w *works) proceed(id meta.PartitionID, p *meta.Partition) bool {
	if !p.Moving() {
		return false
	}
	if p.MoveReady() == nil {
		w.commands = append(w.commands, meta.FinishReassign{Topic: id.Topic, Incarnation: id.Incarnation, Partition: id.Partition, Version: p.Version})
		return true
	}
	if p.Leader == "" || !slices.Contains(p.Removing, p.Leader) {
		return false
	}
	// The leader is removed. Check whether the move would be complete with another leader.
	then := *p
	next, found := pick(p, w.nodes, w.lead)
	if then.Leader = next; !found || then.MoveReady() != nil {
		return false
	}
	w.elections = append(w.elections, election(id, p, next, reasonTransfer))
	w.lead[p.Leader]--
	w.lead[next]++
	return true
}

// evacuate finds other nodes for the replicas that a partition has, or is being given, on leaving
// nodes, and for added replicas that died before they were in sync.
func (w *works) evacuate(id meta.PartitionID, p *meta.Partition) {
	target := slices.Clone(p.Target())
	evacuation := slices.ContainsFunc(p.Removing, func(n meta.NodeID) bool { return w.leaving[n] })
	var out []meta.NodeID
	for _, n := range target {
		dead := w.nodes[n] == Gone && slices.Contains(p.Adding, n)
		switch {
		case w.leaving[n], dead && evacuation:
			out = append(out, n)
		case dead:
			w.troubles = append(w.troubles, Trouble{TroubleMove, id, []meta.NodeID{n}})
		}
	}
	if len(out) == 0 || p.Leader == "" {
		return // there is no leader to copy from
	}
	for _, from := range out {
		to := w.place(p, target)
		if to == "" {
			w.troubles = append(w.troubles, Trouble{TroubleNoRoom, id, []meta.NodeID{from}})
			return
		}
		target = replaced(target, from, to)
	}
	m := Move{id, p.Version, p.Replicas, target}
	if !p.Moving() && !w.slots.reserve(p, target, w.opts) {
		return // it waits for its turn
	}
	for i, from := range p.Target() {
		if target[i] != from {
			shift(w.load, from, target[i])
		}
	}
	w.commands = append(w.commands, m.Command())
}

// fit returns the command that raises the automatic numbers of a topic, if necessary: the replicas
// as soon as there are nodes for more, and the minimum ISR once as many replicas are in sync.
func fit(s *meta.State, t *meta.Topic) meta.FitTopic {
	c := meta.FitTopic{Name: t.Name, Incarnation: t.Incarnation}
	if wanted := meta.WantedReplicas(s); t.Config.AutoReplicas && t.Config.Replicas < wanted {
		c.Replicas = wanted
	} else if least := meta.DefaultMinISR(t.Config.Replicas); t.Config.AutoMinISR && t.Config.MinISR < least && whole(t) {
		c.MinISR = least
	}
	return c
}

// whole reports whether every partition of a topic has all its replicas in sync.
func whole(t *meta.Topic) bool {
	return t.LeastInSync() >= t.Config.Replicas &&
		!slices.ContainsFunc(t.Partitions, func(p meta.Partition) bool { return p.Moving() })
}

// lacks reports whether a partition has fewer replicas than its topic should have automatically.
func lacks(t *meta.Topic, p *meta.Partition) bool {
	return t.Config.AutoReplicas && len(p.Replicas) < t.Config.Replicas
}

// raise adds the missing replicas of a partition. It waits for nodes that are down or drain.
func (w *works) raise(id meta.PartitionID, t *meta.Topic, p *meta.Partition) {
	if !lacks(t, p) || p.Leader == "" {
		return
	}
	target := slices.Clone(p.Replicas)
	for len(target) < t.Config.Replicas {
		to := w.place(p, target)
		if to == "" {
			break
		}
		target = append(target, to)
	}
	added := target[len(p.Replicas):]
	if len(added) == 0 || !w.slots.reserve(p, target, w.opts) {
		return
	}
	for _, to := range added {
		l := w.load[to]
		l.Replicas++
		w.load[to] = l
	}
	w.spread(target, len(p.Replicas))
	w.commands = append(w.commands, Move{id, p.Version, p.Replicas, target}.Command())
}

// spread makes the added replica (those from index from on) that leads least the preferred leader,
// if it leads at least two fewer partitions than the first.
func (w *works) spread(target []meta.NodeID, from int) {
	at := from
	for i := from + 1; i < len(target); i++ {
		if w.load[target[i]].Leaders < w.load[target[at]].Leaders {
			at = i
		}
	}
	less, more := w.load[target[0]], w.load[target[at]]
	if less.Leaders < more.Leaders+2 {
		return
	}
	less.Leaders--
	more.Leaders++
	w.load[target[0]], w.load[target[at]] = less, more
	target[0], target[at] = target[at], target[0]
}

// place returns the node for a replica of p in addition to those of the target: first a node that
// already holds one, then one in the zone least used by the target, then the one with the fewest
// replicas. It returns "" if no node is available.
func (w *works) place(p *meta.Partition, target []meta.NodeID) (best meta.NodeID) {
	used := map[string]int{}
	for _, id := range target {
		if n := w.s.Node(id); n != nil && !w.leaving[id] {
			used[n.Zone]++
		}
	}
	var bestNode *meta.Node
	for n := range w.s.Nodes() {
		if w.nodes[n.ID] != Up || n.Intent != meta.IntentNone || slices.Contains(target, n.ID) {
			continue
		}
		if bestNode == nil || cmp.Or(
			isIn(p.Replicas, bestNode.ID)-isIn(p.Replicas, n.ID),
			cmp.Compare(used[n.Zone], used[bestNode.Zone]),
			cmp.Compare(w.load[n.ID].Replicas, w.load[bestNode.ID].Replicas),
		) < 0 {
			best, bestNode = n.ID, n
		}
	}
	return best
}

// slots counts the moves in progress on each sending node (the leader) and receiving node (the
// added), and in total. A move of a partition without a leader copies nothing, and does not delay
// others.
type slots struct {
	node map[meta.NodeID]int
	all  int
}

func newSlots(s *meta.State) *slots {
	c := &slots{node: map[meta.NodeID]int{}}
	partitions(s, func(_ meta.PartitionID, _ *meta.Topic, p *meta.Partition) bool {
		if p.Moving() && p.Leader != "" {
			c.add(p.Leader, p.Adding)
		}
		return true
	})
	return c
}

func (c *slots) add(leader meta.NodeID, adding []meta.NodeID) {
	c.all++
	for _, id := range adding {
		c.node[id]++
	}
	c.node[leader]++
}

// reserve counts one more move, if the limits allow it. A move that copies nothing is always
// allowed.
func (c *slots) reserve(p *meta.Partition, target []meta.NodeID, o Options) bool {
	var adding []meta.NodeID
	for _, id := range target {
		if !slices.Contains(p.Replicas, id) {
			adding = append(adding, id)
		}
	}
	if len(adding) == 0 {
		return true
	}
	full := func(id meta.NodeID) bool { return c.node[id] >= o.MovesPerNode }
	if c.all >= o.Moves || full(p.Leader) || slices.ContainsFunc(adding, full) {
		return false
	}
	c.add(p.Leader, adding)
	return true
}

// PlanMove validates an operator's request to place a partition's replicas on the nodes of target,
// preferred leader first. Every receiving node must be up and not leaving, and the limits of o
// must allow one more move. The returned command starts the move.
func PlanMove(s *meta.State, nodes Conditions, o Options, id meta.PartitionID, target []meta.NodeID) (meta.StartReassign, error) {
	p, err := find(s, id)
	if err != nil {
		return meta.StartReassign{}, err
	}
	m := Move{id, p.Version, p.Replicas, target}
	if err := meta.Validate(m.Command()); err != nil {
		return meta.StartReassign{}, err
	}
	for _, n := range target {
		node := s.Node(n)
		switch {
		case node == nil:
			return meta.StartReassign{}, fmt.Errorf("node %s: %w", n, failure.NodeNotFound)
		case slices.Contains(p.Replicas, n):
		case nodes[n] == Gone || node.Intent == meta.IntentDecommission:
			return meta.StartReassign{}, fmt.Errorf("node %s: %w", n, failure.NodeNotUp)
		}
	}
	if !p.Moving() && !newSlots(s).reserve(p, target, o.WithDefaults()) {
		return meta.StartReassign{}, fmt.Errorf("%s/%d: %w", id.Topic, id.Partition, failure.TooManyMoves)
	}
	return m.Command(), nil
}

// PlanCancel returns the command that reverts a reassignment to the previous replicas, in their
// order. New copies are kept until the old replicas are in sync again. A reassignment required
// by a decommission is not reverted: it would start again.
func PlanCancel(s *meta.State, id meta.PartitionID) (meta.StartReassign, error) {
	p, err := find(s, id)
	if err != nil {
		return meta.StartReassign{}, err
	}
	if !p.Moving() {
		return meta.StartReassign{}, fmt.Errorf("%s/%d: %w", id.Topic, id.Partition, failure.NotMoving)
	}
	leaves := leaving(s)
	for _, n := range p.Before {
		if leaves[n] {
			return meta.StartReassign{}, fmt.Errorf("%s/%d: node %s: %w", id.Topic, id.Partition, n, failure.NodeLeaving)
		}
	}
	return Move{id, p.Version, p.Replicas, p.Before}.Command(), nil
}

// find returns a partition. Incarnation 0 matches any.
func find(s *meta.State, id meta.PartitionID) (*meta.Partition, error) {
	t := s.Topic(id.Topic)
	switch {
	case t == nil:
		return nil, fmt.Errorf("%s: %w", id.Topic, failure.TopicNotFound)
	case id.Incarnation != 0 && id.Incarnation != t.Incarnation:
		return nil, fmt.Errorf("%s: %w", id.Topic, failure.StaleIncarnation)
	case id.Partition < 0 || id.Partition >= len(t.Partitions):
		return nil, fmt.Errorf("%s/%d: %w", id.Topic, id.Partition, failure.PartitionNotFound)
	}
	return &t.Partitions[id.Partition], nil
}

package controller

import (
	"cmp"
	"slices"

	"github.com/brokerd/brokerd/pkg/meta"
)

// toPreferred returns leaderships to preferred leaders that are up, in sync and in the caller's
// set of steady nodes: at most limit of them (0: all). It does nothing while a node drains, or
// while the setting auto_balance is off.
func toPreferred(s *meta.State, nodes Conditions, steady map[meta.NodeID]bool, limit int) []meta.Election {
	if !s.Settings().AutoBalance() {
		return nil
	}
	for n := range s.Nodes() {
		if nodes[n.ID] == Draining {
			return nil
		}
	}
	var out []meta.Election
	partitions(s, func(id meta.PartitionID, _ *meta.Topic, p *meta.Partition) bool {
		first := p.Replicas[0]
		if p.Leader == first || nodes[p.Leader] != Up || nodes[first] != Up || !steady[first] ||
			p.Moving() || !p.Electable(first) {
			return true
		}
		out = append(out, election(id, p, first, reasonBalance))
		return limit <= 0 || len(out) < limit
	})
	return out
}

// Move is a proposed change of a partition's replicas.
type Move struct {
	meta.PartitionID
	Version uint64 // of the partition
	From    []meta.NodeID
	To      []meta.NodeID // preferred leader first
}

// Command returns the command that starts the move.
func (m Move) Command() meta.StartReassign {
	return meta.StartReassign{
		Topic: m.Topic, Incarnation: m.Incarnation, Partition: m.Partition,
		Version: m.Version, Target: m.To,
	}
}

// PlanBalance lists at most limit moves that bring the replica counts of the nodes within one of
// each other, without moving a partition twice or reducing its zones. Nodes that are not up, or
// drain, are ignored. It changes nothing.
func PlanBalance(s *meta.State, nodes Conditions, limit int) []Move {
	held := map[meta.NodeID][]meta.PartitionID{}
	partitions(s, func(id meta.PartitionID, _ *meta.Topic, p *meta.Partition) bool {
		if !p.Moving() {
			for _, n := range p.Replicas {
				held[n] = append(held[n], id)
			}
		}
		return true
	})
	load := s.Load()
	var ids []meta.NodeID
	for n := range s.Nodes() {
		if nodes[n.ID] == Up {
			ids = append(ids, n.ID)
		}
	}
	b := balancer{s: s, held: held, load: load, moved: map[meta.PartitionID]bool{}}
	var out []Move
	for len(out) < limit {
		slices.SortFunc(ids, func(x, y meta.NodeID) int {
			return cmp.Or(cmp.Compare(load[y].Replicas, load[x].Replicas), cmp.Compare(x, y))
		})
		m, ok := b.step(ids)
		if !ok {
			break
		}
		out = append(out, m)
	}
	return out
}

// balancer holds the state of a plan being built.
type balancer struct {
	s     *meta.State
	held  map[meta.NodeID][]meta.PartitionID
	load  map[meta.NodeID]meta.Load
	moved map[meta.PartitionID]bool
}

// step finds a move from one of the fuller nodes to one of the emptier. ids are sorted, the
// fullest first.
func (b *balancer) step(ids []meta.NodeID) (Move, bool) {
	for _, from := range ids {
		for _, to := range slices.Backward(ids) {
			if b.load[from].Replicas-b.load[to].Replicas < 2 {
				break
			}
			if m, ok := b.move(from, to); ok {
				return m, true
			}
		}
	}
	return Move{}, false
}

func (b *balancer) move(from, to meta.NodeID) (Move, bool) {
	for _, id := range b.held[from] {
		p := &b.s.Topic(id.Topic).Partitions[id.Partition]
		if b.moved[id] || slices.Contains(p.Replicas, to) {
			continue
		}
		target := replaced(p.Replicas, from, to)
		if zones(b.s, target) < zones(b.s, p.Replicas) {
			continue
		}
		b.moved[id] = true
		shift(b.load, from, to)
		return Move{id, p.Version, p.Replicas, target}, true
	}
	return Move{}, false
}

// shift moves one replica from from to to in the load.
func shift(load map[meta.NodeID]meta.Load, from, to meta.NodeID) {
	less, more := load[from], load[to]
	less.Replicas--
	more.Replicas++
	load[from], load[to] = less, more
}

// replaced returns ids with one id replaced by another.
func replaced(ids []meta.NodeID, from, to meta.NodeID) []meta.NodeID {
	out := slices.Clone(ids)
	out[slices.Index(out, from)] = to
	return out
}

// zones counts the failure domains of the nodes.
func zones(s *meta.State, ids []meta.NodeID) int {
	var seen []string
	for _, id := range ids {
		if n := s.Node(id); n != nil && !slices.Contains(seen, n.Zone) {
			seen = append(seen, n.Zone)
		}
	}
	return len(seen)
}

package controller

import (
	"cmp"
	"slices"

	"github.com/brokerd/brokerd/pkg/meta"
)

// Reasons of elections, for meta.Election.
const (
	reasonNodeDown = meta.ReasonNodeDown
	reasonRestart  = meta.ReasonRestart
	reasonDrain    = meta.ReasonDrain
	reasonClock    = meta.ReasonClock
	reasonTransfer = meta.ReasonTransfer
	reasonBalance  = meta.ReasonBalance
)

// Condition is the suitability of a node. More is better.
type Condition uint8

// The conditions of a node.
const (
	Gone     Condition = iota // dead, or not a member
	Draining                  // alive; leads only if no other node can
	Skewed                    // alive, but its clock differs from the others'; leads only if no other node can
	Full                      // alive, but its disk accepts no publishes; leads only if no other node can
	Up
)

// Conditions holds the condition of each node; a missing one is Gone.
type Conditions map[meta.NodeID]Condition

// ConditionsOf returns the conditions of the nodes according to the metadata.
func ConditionsOf(s *meta.State) Conditions {
	return conditions(s, func(n *meta.Node) bool { return n.State == meta.NodeDown })
}

func conditions(s *meta.State, gone func(*meta.Node) bool) Conditions {
	out := make(Conditions, s.NodeCount())
	for n := range s.Nodes() {
		switch {
		case gone(n):
			out[n.ID] = Gone
		case n.State == meta.NodeDraining || n.Intent != meta.IntentNone:
			out[n.ID] = Draining
		case n.DiskFull:
			out[n.ID] = Full
		default:
			out[n.ID] = Up
		}
	}
	return out
}

// TroubleKind is the kind of a problem that needs an operator.
type TroubleKind string

// Kinds of trouble.
const (
	TroubleOffline TroubleKind = "offline" // no in-sync replica is alive
	TroubleDrain   TroubleKind = "drain"   // no other in-sync replica can lead
	TroubleNoRoom  TroubleKind = "no_room" // no node can take the replica
	TroubleMove    TroubleKind = "move"    // a replica being added is dead
	TroubleMinISR  TroubleKind = "min_isr" // the in-sync replicas would fall below the minimum ISR
)

// Trouble is an action that the controller cannot perform.
type Trouble struct {
	Kind TroubleKind
	meta.PartitionID
	Nodes []meta.NodeID // affected nodes; shared, must not be changed
}

// same reports whether two troubles have the same subject.
func (t Trouble) same(u Trouble) bool {
	return t.Kind == u.Kind && t.PartitionID == u.PartitionID && slices.Equal(t.Nodes, u.Nodes)
}

// partitions calls f with each partition, by topic and number, until f returns false.
func partitions(s *meta.State, f func(meta.PartitionID, *meta.Topic, *meta.Partition) bool) {
	for t := range s.Topics() {
		for i := range t.Partitions {
			if !f(meta.PartitionID{Topic: t.Name, Incarnation: t.Incarnation, Partition: i}, t, &t.Partitions[i]) {
				return
			}
		}
	}
}

func election(id meta.PartitionID, p *meta.Partition, leader meta.NodeID, reason string) meta.Election {
	return meta.Election{
		Topic: id.Topic, Incarnation: id.Incarnation, Partition: id.Partition,
		Version: p.Version, Leader: leader, Reason: reason,
	}
}

// Elect elects a new leader from the in-sync set for every partition whose leader is dead,
// missing or draining. If there is none, the partition goes offline. Elections that end an
// outage come first.
func Elect(s *meta.State, nodes Conditions) ([]meta.Election, []Trouble) {
	var outages, drains []meta.Election
	var troubles []Trouble
	load := leaderships(s)
	partitions(s, func(id meta.PartitionID, _ *meta.Topic, p *meta.Partition) bool {
		now := nodes[p.Leader]
		if now >= Full {
			return true
		}
		next, found := pick(p, nodes, load)
		switch {
		case now == Draining && (!found || nodes[next] != Up):
			troubles = append(troubles, Trouble{TroubleDrain, id, []meta.NodeID{p.Leader}})
		case now == Skewed && (!found || nodes[next] != Up): // the agreed time is correct there too
		case now == Skewed:
			drains = append(drains, election(id, p, next, reasonClock))
			load[p.Leader]--
			load[next]++
		case now == Draining:
			drains = append(drains, election(id, p, next, reasonDrain))
			load[p.Leader]--
			load[next]++
		case found && p.Leader == "":
			outages = append(outages, election(id, p, next, reasonRestart))
			load[next]++
		case found:
			outages = append(outages, election(id, p, next, reasonNodeDown))
			load[next]++
		default:
			troubles = append(troubles, Trouble{TroubleOffline, id, p.ISR})
			if p.Leader != "" {
				outages = append(outages, election(id, p, "", reasonNodeDown))
			}
		}
		return true
	})
	return append(outages, drains...), troubles
}

// leaderships returns the number of partitions that each node leads.
func leaderships(s *meta.State) map[meta.NodeID]int {
	load := make(map[meta.NodeID]int, s.NodeCount())
	partitions(s, func(_ meta.PartitionID, _ *meta.Topic, p *meta.Partition) bool {
		if p.Leader != "" {
			load[p.Leader]++
		}
		return true
	})
	return load
}

// pick returns the in-sync replica that should lead, in order of preference: one that is up before
// one with a full disk, that before a draining one; one that stays before one being removed; the
// preferred leader; the one that leads least. A draining leader cannot succeed itself, and a replica
// that may have lost data is chosen only if Partition.Electable allows it.
func pick(p *meta.Partition, nodes Conditions, load map[meta.NodeID]int) (best meta.NodeID, found bool) {
	better := func(a, b meta.NodeID) bool {
		return cmp.Or(
			-cmp.Compare(nodes[a], nodes[b]),
			isIn(p.Removing, a)-isIn(p.Removing, b),
			isIn(p.Replicas[:1], b)-isIn(p.Replicas[:1], a),
			cmp.Compare(load[a], load[b]),
			cmp.Compare(slices.Index(p.Replicas, a), slices.Index(p.Replicas, b)),
		) < 0
	}
	for _, id := range p.ISR {
		if nodes[id] == Gone || id == p.Leader || !p.Electable(id) {
			continue
		}
		if !found || better(id, best) {
			best, found = id, true
		}
	}
	return best, found
}

func isIn(ids []meta.NodeID, id meta.NodeID) int {
	if slices.Contains(ids, id) {
		return 1
	}
	return 0
}

// batches splits elections into commands.
func batches(es []meta.Election, size int) []meta.Command {
	var out []meta.Command
	for part := range slices.Chunk(es, min(size, meta.MaxElections)) {
		out = append(out, meta.ElectLeaders{Elections: part})
	}
	return out
}

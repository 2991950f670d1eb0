package meta

import (
	"cmp"
	"fmt"
	"slices"
)

// Load is what a node already carries.
type Load struct {
	Replicas int   // of all topics
	Leaders  int   // among them
	Bytes    int64 // of their logs
}

// Load returns what each node carries by the metadata: replicas and
// leaderships. It knows no bytes.
func (s *State) Load() map[NodeID]Load {
	out := make(map[NodeID]Load, len(s.nodes))
	for _, t := range s.topics {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			for k, id := range p.Replicas {
				l := out[id]
				l.Replicas++
				if k == 0 { // the preferred leader: what balance returns to
					l.Leaders++
				}
				out[id] = l
			}
		}
	}
	return out
}

// candidate is a node while a placement is being made.
type candidate struct {
	id   NodeID
	zone string
	load Load
	here int // replicas of this placement
	lead int // leaderships of this placement
}

// Place assigns replicas of new partitions to nodes: the preferred leader of
// each first. Only nodes that are up are used. The same input gives the same
// answer, whatever the order of nodes.
//
// No partition has two replicas on one node, and as many zones as there are, or
// as it has replicas, hold one. Within that, this placement's replicas and
// leaderships are spread evenly, then those of the whole cluster, then bytes.
// With fewer nodes up than replicas the error wraps ErrTooFewNodes.
func Place(nodes []*Node, existing map[NodeID]Load, partitions, replicas int) ([][]NodeID, error) {
	var cands []*candidate
	for _, n := range nodes {
		if n.State == NodeUp {
			cands = append(cands, &candidate{id: n.ID, zone: n.Zone, load: existing[n.ID]})
		}
	}
	if len(cands) < replicas || replicas < 1 {
		return nil, fmt.Errorf("%w: %d replicas, %d nodes are up", ErrTooFewNodes, replicas, len(cands))
	}
	slices.SortFunc(cands, func(a, b *candidate) int { return cmp.Compare(a.id, b.id) })
	out := make([][]NodeID, partitions)
	for i := range out {
		out[i] = placeOne(cands, replicas)
	}
	return out, nil
}

func placeOne(cands []*candidate, replicas int) []NodeID {
	var chosen []*candidate
	zones := map[string]int{}
	for len(chosen) < replicas {
		var best *candidate
		for _, c := range cands {
			if !slices.Contains(chosen, c) && (best == nil || c.compare(best, zones) < 0) {
				best = c
			}
		}
		chosen = append(chosen, best)
		zones[best.zone]++
		best.here++
		best.load.Replicas++
	}
	// Which of them leads is free: the one that leads least.
	leader := slices.MinFunc(chosen, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(a.lead, b.lead), cmp.Compare(a.load.Leaders, b.load.Leaders))
	})
	leader.lead++
	leader.load.Leaders++
	ids := []NodeID{leader.id}
	for _, c := range chosen {
		if c != leader {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// compare says which of two should get the next replica: the one in the less
// used zone first, then the one with less of this topic, then the one with less
// in all. Ties fall to the earlier, so to the lesser id.
func (c *candidate) compare(d *candidate, zones map[string]int) int {
	return cmp.Or(
		cmp.Compare(zones[c.zone], zones[d.zone]),
		cmp.Compare(c.here, d.here),
		cmp.Compare(c.load.Replicas, d.load.Replicas),
		cmp.Compare(c.load.Leaders, d.load.Leaders),
		cmp.Compare(c.load.Bytes, d.load.Bytes),
	)
}

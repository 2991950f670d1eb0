// Package placement decides which nodes hold the replicas of new partitions.
//
// It knows nodes, their zones and what they carry already. It does not know topics, and
// changes nothing: the caller proposes what Place returns as a command of pkg/meta.
package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// candidate is a node while a placement is being made.
type candidate struct {
	id   meta.NodeID
	zone string
	load meta.Load
	here int // replicas of this placement
	lead int // leaderships of this placement

	drains bool // it may hold replicas, and is to lead nothing
}

// Place assigns replicas of new partitions to nodes: the preferred leader of
// each first. Nodes that are up are used, and where those are too few also nodes
// that drain, which then lead nothing unless all drain. Nodes that are down or being
// decommissioned get nothing. The same input gives the same answer, whatever the
// order of nodes.
//
// No partition has two replicas on one node, and as many zones as there are, or
// as it has replicas, hold one. Within that, this placement's replicas and
// leaderships are spread evenly, then those of the whole cluster, then bytes.
// With fewer such nodes than replicas the error wraps failure.TooFewNodes.
func Place(nodes []*meta.Node, existing map[meta.NodeID]meta.Load, partitions, replicas int) ([][]meta.NodeID, error) {
	var cands []*candidate
	for _, n := range nodes {
		if n.MayHold() {
			cands = append(cands, &candidate{id: n.ID, zone: n.Zone, load: existing[n.ID], drains: n.State != meta.NodeUp})
		}
	}
	if len(cands) < replicas || replicas < 1 {
		return nil, fmt.Errorf("%w: %d replicas, %d eligible nodes", failure.TooFewNodes, replicas, len(cands))
	}
	slices.SortFunc(cands, func(a, b *candidate) int { return cmp.Compare(a.id, b.id) })
	placed := make([][]*candidate, partitions)
	for i := range placed {
		placed[i] = placeOne(cands, replicas)
	}
	for _, c := range cands {
		for unburden(c, placed) {
		}
	}
	out := make([][]meta.NodeID, partitions)
	for i, chosen := range placed {
		for _, c := range chosen {
			out[i] = append(out[i], c.id)
		}
	}
	return out, nil
}

// unburden takes a leadership from a node that has two more than one to which it can be passed,
// perhaps over others that lead as many as before, and reports whether there was one. Each
// partition's first replica leads it.
func unburden(from *candidate, placed [][]*candidate) bool {
	type step struct{ partition, replica int } // the previous leader passed it to the replica
	came := map[*candidate]step{from: {}}
	for queue := []*candidate{from}; len(queue) > 0; queue = queue[1:] {
		for i, chosen := range placed {
			if chosen[0] != queue[0] {
				continue
			}
			for k, to := range chosen[1:] {
				if _, seen := came[to]; seen {
					continue
				}
				came[to] = step{i, k + 1}
				queue = append(queue, to)
				if to.lead > from.lead-2 || to.drains && !from.drains {
					continue
				}
				to.gains(1)
				from.gains(-1)
				for to != from {
					s := came[to]
					chosen := placed[s.partition]
					to = chosen[0]
					chosen[0], chosen[s.replica] = chosen[s.replica], chosen[0]
				}
				return true
			}
		}
	}
	return false
}

// draining is 1 for a node that drains, else 0.
func (c *candidate) draining() int {
	if c.drains {
		return 1
	}
	return 0
}

func (c *candidate) gains(leaderships int) {
	c.lead += leaderships
	c.load.Leaders += leaderships
}

// placeOne chooses the replicas of one partition, the one that leads first.
func placeOne(cands []*candidate, replicas int) []*candidate {
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
	// Which of them leads is free: the one that leads least, of those that do not
	// drain.
	leader := slices.MinFunc(chosen, func(a, b *candidate) int {
		return cmp.Or(a.draining()-b.draining(), cmp.Compare(a.lead, b.lead), cmp.Compare(a.load.Leaders, b.load.Leaders))
	})
	leader.gains(1)
	at := slices.Index(chosen, leader)
	copy(chosen[1:at+1], chosen[:at])
	chosen[0] = leader
	return chosen
}

// compare determines which of two nodes should get the next replica: one that does not drain first,
// then the one in the less used zone, then the one with less of this topic, then the one with less
// in total. Ties go to the lower id.
func (c *candidate) compare(d *candidate, zones map[string]int) int {
	return cmp.Or(
		c.draining()-d.draining(),
		cmp.Compare(zones[c.zone], zones[d.zone]),
		cmp.Compare(c.here, d.here),
		cmp.Compare(c.load.Replicas, d.load.Replicas),
		cmp.Compare(c.load.Leaders, d.load.Leaders),
		cmp.Compare(c.load.Bytes, d.load.Bytes),
	)
}

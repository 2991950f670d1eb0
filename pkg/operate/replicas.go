package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// FitReplicas starts adjusting the number of replicas of a topic's partitions to its
// configuration, a few at a time, and returns how many partitions have not started: call it
// again when some have finished. Partitions being moved are skipped.
func (o *Operator) FitReplicas(ctx context.Context, topic string) (waiting int, err error) {
	t, err := o.node.topics.Topic(topic)
	if err != nil {
		return 0, err
	}
	var errs []error
	for i := range t.Partitions {
		s, t, p, err := o.node.find(topic, i)
		if err != nil {
			return waiting, err
		}
		if p.Moving() || len(p.Replicas) == t.Config.Replicas {
			continue
		}
		target, err := fitted(s, controller.ConditionsOf(s), p, t.Config.Replicas)
		if err == nil {
			err = o.MovePartition(ctx, topic, i, target, false)
		}
		switch {
		case errors.Is(err, failure.TooManyMoves):
			waiting++
		case err != nil:
			errs = append(errs, failure.About(fmt.Sprintf("%s/%d", topic, i), err))
		}
	}
	return waiting, errors.Join(errs...)
}

// fitted returns n replicas for a partition. If it has too many, the last are removed, those that
// are not in sync first. If it has too few, nodes are added that are up, in the least used zones,
// with the least load.
func fitted(s *meta.State, nodes controller.Conditions, p *meta.Partition, n int) ([]meta.NodeID, error) {
	target := slices.Clone(p.Replicas)
	for len(target) > n {
		last := len(target) - 1
		for i, id := range slices.Backward(target) {
			if !slices.Contains(p.ISR, id) {
				last = i
				break
			}
		}
		target = slices.Delete(target, last, last+1)
	}
	load := nodeLoads(s)
	for len(target) < n {
		zones := map[string]int{}
		for _, id := range target {
			if x := s.Node(id); x != nil {
				zones[x.Zone]++
			}
		}
		var free []*meta.Node
		for x := range s.Nodes() {
			if nodes[x.ID] == controller.Up && !slices.Contains(target, x.ID) {
				free = append(free, x)
			}
		}
		if len(free) == 0 {
			return nil, fmt.Errorf("%w: %d, and no other node is up", failure.TooFewNodes, len(target))
		}
		best := slices.MinFunc(free, func(a, b *meta.Node) int {
			return cmp.Or(cmp.Compare(zones[a.Zone], zones[b.Zone]), cmp.Compare(load[a.ID].replicas, load[b.ID].replicas), cmp.Compare(a.ID, b.ID))
		})
		target = append(target, best.ID)
	}
	return target, nil
}

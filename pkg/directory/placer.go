package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/placement"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// placer decides which nodes hold the replicas of new partitions.
type placer struct{ o *Options }

// registrationTimeout is how long the creation of a topic waits for nodes that join the cluster.
const registrationTimeout = 5 * time.Second

// await is place. With too few nodes it waits for members of the Raft group that have not registered
// yet: those of a cluster that was just formed do so one after the other.
func (p placer) await(ctx context.Context, name string, cfg meta.TopicConfig) (meta.TopicConfig, [][]meta.NodeID, error) {
	late := time.NewTimer(registrationTimeout)
	defer late.Stop()
	for {
		changed := p.o.Meta.Changed()
		full, assignment, err := p.place(name, cfg)
		if !errors.Is(err, failure.TooFewNodes) || p.allRegistered() {
			return full, assignment, err
		}
		select {
		case <-changed:
		case <-late.C:
			return full, nil, err
		case <-ctx.Done():
			return full, nil, err
		}
	}
}

// allRegistered reports whether each member of the Raft group is a node of the metadata.
func (p placer) allRegistered() (all bool) {
	members := p.o.Meta.Members().Configuration().Members
	p.o.Meta.Read(func(s *meta.State) {
		all = !slices.ContainsFunc(members, func(m raftstore.Member) bool { return s.Node(m.ID) == nil })
	})
	return all
}

// place sets what a new topic's creator left open, and chooses the nodes of its replicas.
func (p placer) place(name string, cfg meta.TopicConfig) (meta.TopicConfig, [][]meta.NodeID, error) {
	var assignment [][]meta.NodeID
	var err error
	cfg = overlay(cfg, p.o.TopicDefaults)
	p.o.Meta.Read(func(s *meta.State) {
		cfg = s.Settings().TopicDefaults(cfg).WithDefaults(meta.StayingNodes(s), meta.IsEphemeral(name))
		if err = cfg.Validate(); err == nil {
			assignment, err = p.assign(s, name, cfg.Partitions, cfg.Replicas, cfg.MinISR)
		}
	})
	return cfg, assignment, err
}

// overlay sets the fields that cfg leaves open.
func overlay(cfg, defaults meta.TopicConfig) meta.TopicConfig {
	cfg.Partitions = cmp.Or(cfg.Partitions, defaults.Partitions)
	cfg.Sync = cmp.Or(cfg.Sync, defaults.Sync)
	cfg.RetentionAge = cmp.Or(cfg.RetentionAge, defaults.RetentionAge)
	cfg.RetentionBytes = cmp.Or(cfg.RetentionBytes, defaults.RetentionBytes)
	return cfg
}

// assign chooses the nodes of the replicas of new partitions. An ephemeral topic stays on the node
// that creates it. If fewer nodes than replicas can take one, but enough to publish, nodes that are
// down get the rest: they catch up when they return.
func (p placer) assign(s *meta.State, name string, partitions, replicas, minISR int) ([][]meta.NodeID, error) {
	assignment, err := p.choose(s, name, partitions, replicas, minISR)
	return assignment, cmp.Or(err, fits(s, assignment))
}

// roomy returns the nodes that have room for a partition, as long as they are enough.
func roomy(nodes []*meta.Node, load map[meta.NodeID]meta.Load, replicas int) []*meta.Node {
	some := slices.DeleteFunc(slices.Clone(nodes), func(n *meta.Node) bool {
		return n.MaxPartitions > 0 && load[n.ID].Replicas >= n.MaxPartitions
	})
	if len(some) < replicas {
		return nodes
	}
	return some
}

// fits returns failure.LimitReached if a node would hold more partitions than it takes with those of an assignment.
func fits(s *meta.State, assignment [][]meta.NodeID) error {
	load, more := s.Load(), map[meta.NodeID]int{}
	for _, ids := range assignment {
		for _, id := range ids {
			more[id]++
		}
	}
	for _, id := range slices.Sorted(maps.Keys(more)) {
		has, n := load[id].Replicas, s.Node(id)
		if n != nil && n.MaxPartitions > 0 && has+more[id] > n.MaxPartitions {
			return fmt.Errorf("%w: node %s has %d partitions of at most %d, and would get %d more; delete topics, add a node, or raise max-partitions or memory-budget there",
				failure.LimitReached, id, has, n.MaxPartitions, more[id])
		}
	}
	return nil
}

func (p placer) choose(s *meta.State, name string, partitions, replicas, minISR int) ([][]meta.NodeID, error) {
	if self := s.Node(p.o.Self); meta.IsEphemeral(name) && replicas == 1 && self != nil && self.MayHold() {
		return slices.Repeat([][]meta.NodeID{{self.ID}}, partitions), nil
	}
	var up, down []*meta.Node
	load := s.Load()
	for n := range s.Nodes() {
		switch {
		case n.MayHold():
			up = append(up, n)
		case n.State == meta.NodeDown && n.Intent != meta.IntentDecommission:
			down = append(down, n)
		}
	}
	up = roomy(up, load, replicas)
	missing := replicas - len(up)
	if missing <= 0 || len(up) < minISR || missing > len(down) {
		return placement.Place(up, load, partitions, replicas)
	}
	assignment, err := placement.Place(up, load, partitions, len(up))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(down, func(a, b *meta.Node) int {
		return cmp.Or(cmp.Compare(load[a.ID].Replicas, load[b.ID].Replicas), cmp.Compare(a.ID, b.ID))
	})
	for i := range assignment {
		for _, n := range down[:missing] {
			assignment[i] = append(assignment[i], n.ID)
		}
	}
	return assignment, nil
}

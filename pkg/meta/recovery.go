package meta

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/brokerd/brokerd/pkg/failure"
)

// A cluster that was recovered from a single node gets a new id, so that the nodes that were given
// up can no longer take part:
//
// K6VOQY6C5GFIIYBF7ZFKDOZLMT            as it was formed: epoch 1
// K6VOQY6C5GFIIYBF7ZFKDOZLMT.2.QX5TBM2W recovered once: origin, epoch, random part
//
// The random part distinguishes two independent recoveries of one cluster.

// RecoveredID returns the id of a cluster after a recovery. chance is random letters and digits.
func RecoveredID(id, chance string) string {
	origin, epoch := clusterEpoch(id)
	return fmt.Sprintf("%s.%d.%s", origin, epoch+1, chance)
}

// Supersedes reports whether newer is the id of the cluster older after one or more
// recoveries.
func Supersedes(newer, older string) bool {
	newOrigin, newEpoch := clusterEpoch(newer)
	oldOrigin, oldEpoch := clusterEpoch(older)
	return newOrigin == oldOrigin && newEpoch > oldEpoch
}

// clusterEpoch splits a cluster's id. A cluster that was never recovered has epoch 1.
func clusterEpoch(id string) (origin string, epoch int) {
	head, chance := cutLast(id)
	origin, number := cutLast(head)
	n, err := strconv.Atoi(number)
	if err != nil || n < 2 || chance == "" || origin == "" {
		return id, 1
	}
	return origin, n
}

func cutLast(s string) (before, after string) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i+1:]
}

// Holding is how much of a partition a node has.
type Holding string

// The values of Holding.
const (
	HoldsAll  Holding = "all"  // it is in sync: every acknowledged message
	HoldsSome Holding = "some" // it is a replica that was not in sync: how much it lacks is unknown
	HoldsNone Holding = "none" // it is no replica
)

// SurvivorPartition is the state of one partition on a single surviving node.
type SurvivorPartition struct {
	Topic       string
	Incarnation Incarnation
	Partition   int
	Holds       Holding
	ISR         []NodeID // likewise
	Leader      NodeID   // likewise
	MinISR      int      // of the topic: with fewer in-sync replicas it accepts no publishes
}

// SurvivorPartitions lists all partitions by topic and number, with how much the node holds of
// each.
func SurvivorPartitions(s *State, survivor NodeID) []SurvivorPartition {
	out := make([]SurvivorPartition, 0, s.topics.partitions)
	for t := range s.topics.all() {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			out = append(out, SurvivorPartition{
				Topic: t.Name, Incarnation: t.Incarnation, Partition: i, Holds: p.heldBy(survivor),
				ISR: p.ISR, Leader: p.Leader, MinISR: t.Config.MinISR,
			})
		}
	}
	return out
}

func (p *Partition) heldBy(id NodeID) Holding {
	switch {
	case slices.Contains(p.ISR, id):
		return HoldsAll
	case slices.Contains(p.Replicas, id):
		return HoldsSome
	}
	return HoldsNone
}

// recoveredEpochs is by how much a recovery raises every epoch: beyond those that the lost nodes
// may have begun without the survivor knowing, so that no epoch ever has two histories.
const recoveredEpochs = 1 << 10

// OnlySurvivor returns the state of a cluster of one, derived from the survivor's state: every
// other node is removed, and the survivor is the only replica of each partition. It is in sync if
// it was before. Otherwise no replica is: such a partition stays offline until an operator elects
// the survivor, whatever its copy lacks. The same applies to topics in the trash; those of which the
// survivor has nothing are removed. A topic's number of replicas, and its min ISR, stay as the
// operator chose. cluster is the new id. The state s does not change.
func OnlySurvivor(s *State, survivor NodeID, cluster string) (*State, error) {
	self := s.Node(survivor)
	if self == nil {
		return nil, fmt.Errorf("node %s: %w", survivor, failure.NodeNotFound)
	}
	if err := (InitCluster{ID: cluster}).validate(); err != nil {
		return nil, err
	}
	next := s.Snapshot()
	next.cluster.ID = cluster
	node := *self
	node.Intent = IntentNone
	node.State = NodeUp
	node.Disk = Disk{} // s may be older than its last start
	next.nodes = []*Node{&node}
	only := func(t *Topic) *Topic { return t.onlyOn(node.ID, s.index) }
	next.topics.update(only)
	gone := TrashOf(s).Without(survivor)
	next.trash = slices.DeleteFunc(TrashOf(s).update(only), func(d *Deleted) bool { return slices.Contains(gone, d.Topic.Incarnation) })
	return next, nil
}

// onlyOn returns the topic with id as the only replica of each partition, in sync if it was before.
func (t *Topic) onlyOn(id NodeID, index uint64) *Topic {
	next := *t
	next.Version = index
	next.Partitions = slices.Clone(t.Partitions)
	for i := range next.Partitions {
		p := &next.Partitions[i]
		holds := p.heldBy(id)
		p.Replicas, p.Adding, p.Removing, p.Before = []NodeID{id}, nil, nil, nil
		p.ISR, p.Leader = nil, ""
		if holds == HoldsAll {
			p.ISR = p.Replicas
		}
		p.Epoch += recoveredEpochs
		p.Version++
	}
	return &next
}

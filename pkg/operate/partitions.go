package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
)

// Progress is how much of an operation is left. Bytes are of the copies under
// way.
type Progress struct {
	Leaders, Replicas, Moving int // partitions
	Bytes                     int64
	BytesPerSecond            int64
	TimeLeft                  time.Duration // at that rate; 0: not known
}

// PartitionDetail describes one partition and its copies.
type PartitionDetail struct {
	Stats            stats.Partition // its leader's
	Topic            string
	Adding, Removing []string
	Copies           []CopyStats // in the order of the replicas
	Left             Progress    // of a move
	Troubles         []Trouble
}

// CopyStats is one replica of a partition: what its node says of it, if that
// Answered, and for a follower what the leader sees.
type CopyStats struct {
	Node             string
	InSync, Answered bool
	LogStart         seq.Offset
	CommittedEnd     seq.Offset
	LogEnd           seq.Offset
	Bytes            int64
	Damaged          bool
	Checked          time.Time      // when all of it was last read from disk; zero: never
	Checking         float64        // the part that has been read since, 0 to 1
	Follower         *FollowerStats // nil: the leader's own, or it did not answer
}

// FollowerStats is a follower as the leader of a partition sees it.
type FollowerStats struct {
	Node           string
	Connected      bool
	State          string
	Acked          seq.Offset // it has every message below
	Lag            int64      // messages
	LagBytes       int64
	BytesPerSecond int64
	Behind         time.Duration // for how long it has been; 0: it is level; -1: it never was
}

// Trouble is something that the controller would do and cannot.
type Trouble = controller.Trouble

// partitionAt names a partition.
type partitionAt struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
}

// followersOf is what the leader of a partition sees.
type followersOf struct {
	partitionAt
	Followers []FollowerStats `json:"followers"`
}

var askFollowers = question[[]partitionAt, []followersOf]{"followers", func(o *Node, _ context.Context, at []partitionAt) ([]followersOf, error) {
	var out []followersOf
	for _, a := range at {
		if all, led := o.followersHere(a); led {
			out = append(out, followersOf{a, all})
		}
	}
	return out, nil
}}

// followers asks the leaders of partitions how far their followers are.
func (o *Node) followers(ctx context.Context, s *meta.State, at []partitionAt) map[partitionAt][]FollowerStats {
	byLeader := map[meta.NodeID][]partitionAt{}
	for _, a := range at {
		if t := s.Topic(a.Topic); t != nil && t.Partitions[a.Partition].Leader != "" {
			leader := t.Partitions[a.Partition].Leader
			byLeader[leader] = append(byLeader[leader], a)
		}
	}
	nodes := slices.DeleteFunc(o.present(), func(id meta.NodeID) bool { return byLeader[id] == nil })
	out := map[partitionAt][]FollowerStats{}
	for _, some := range askAll(ctx, o, askFollowers, nodes, func(id meta.NodeID) []partitionAt { return byLeader[id] }) {
		for _, f := range some {
			out[f.partitionAt] = f.Followers
		}
	}
	return out
}

// progress adds what the moves of partitions have still to copy.
func (o *Node) progress(ctx context.Context, s *meta.State, moving []partitionAt, left *Progress) {
	seen := o.followers(ctx, s, moving)
	left.Moving = len(moving)
	for _, a := range moving {
		p := &s.Topic(a.Topic).Partitions[a.Partition]
		for _, f := range seen[a] {
			if slices.Contains(p.Adding, meta.NodeID(f.Node)) && !slices.Contains(p.ISR, meta.NodeID(f.Node)) {
				left.Bytes += f.LagBytes
				left.BytesPerSecond += f.BytesPerSecond
			}
		}
	}
	if left.Bytes > 0 && left.BytesPerSecond > 0 {
		left.TimeLeft = time.Duration(float64(left.Bytes) / float64(left.BytesPerSecond) * float64(time.Second)).Round(time.Second)
	}
}

// find returns a partition with the state that it is of.
func (o *Node) find(topic string, i int) (*meta.State, *meta.Topic, *meta.Partition, error) {
	s := o.Meta.View()
	t := s.Topic(topic)
	switch {
	case t == nil:
		return nil, nil, nil, fmt.Errorf("%s: %w", topic, meta.ErrTopicNotFound)
	case i < 0 || i >= len(t.Partitions):
		return nil, nil, nil, fmt.Errorf("%s/%d: %w", topic, i, meta.ErrPartitionNotFound)
	}
	return s, t, &t.Partitions[i], nil
}

func idOf(t *meta.Topic, i int) controller.PartitionID {
	return controller.PartitionID{Topic: t.Name, Incarnation: t.Incarnation, Partition: i}
}

// DescribePartition describes a partition and each of its copies.
func (o *Operator) DescribePartition(ctx context.Context, topic string, i int) (PartitionDetail, error) {
	s, t, p, err := o.node.find(topic, i)
	if err != nil {
		return PartitionDetail{}, err
	}
	out := PartitionDetail{
		Stats: stats.Partition{
			Partition: i, Leader: string(p.Leader), Epoch: p.Epoch, Replicas: texts(p.Replicas), ISR: texts(p.ISR),
		},
		Topic: topic, Adding: texts(p.Adding), Removing: texts(p.Removing),
	}
	a := copyArgs{PartitionID: idOf(t, i)}
	extents := askAll(ctx, o.node, askExtent, o.node.copiesOf(p), func(meta.NodeID) copyArgs { return a })
	at := partitionAt{topic, i}
	seen := o.node.followers(ctx, s, []partitionAt{at})[at]
	for _, id := range p.Replicas {
		c := CopyStats{Node: string(id), InSync: slices.Contains(p.ISR, id)}
		if e, ok := extents[id]; ok {
			c.Answered = true
			c.LogStart, c.CommittedEnd, c.LogEnd, c.Bytes = e.LogStart, e.CommittedEnd, e.LogEnd, e.Bytes
			if c.Damaged, c.Checking = e.Damaged, e.Checking; e.Checked != 0 {
				c.Checked = time.Unix(0, e.Checked)
			}
		}
		if k := slices.IndexFunc(seen, func(f FollowerStats) bool { return f.Node == string(id) }); k >= 0 {
			c.Follower = &seen[k]
		}
		if id == p.Leader {
			out.Stats.LogStart, out.Stats.CommittedEnd, out.Stats.LogEnd, out.Stats.Bytes = c.LogStart, c.CommittedEnd, c.LogEnd, c.Bytes
		}
		out.Copies = append(out.Copies, c)
	}
	if p.Moving() {
		o.node.progress(ctx, s, []partitionAt{at}, &out.Left)
	}
	out.Troubles = o.node.troubles(ctx, func(tr controller.Trouble) bool { return tr.Topic == topic && tr.Partition == i })
	return out, nil
}

// handoverTimeout bounds how long a leader may take to hand over in order.
const handoverTimeout = 2 * time.Second

// TransferLeader has another in-sync replica lead a partition; to "" leaves the
// choice open. The leader hands over in order; one that cannot is replaced.
func (o *Operator) TransferLeader(ctx context.Context, topic string, i int, to meta.NodeID) error {
	return o.transfer(ctx, topic, i, to, meta.ReasonTransfer)
}

// transfer moves a leadership on. A leader that could not hand over in time, as one
// that has only just begun, is asked again; nothing has changed then. One that
// cannot be reached is replaced without its help.
func (o *Operator) transfer(ctx context.Context, topic string, i int, to meta.NodeID, reason string) error {
	for try := range askAgain {
		s, t, p, err := o.node.find(topic, i)
		if err != nil {
			return err
		}
		if to != "" && to == p.Leader {
			return nil
		}
		e, err := controller.Transfer(s, controller.ConditionsOf(s), idOf(t, i), to, false)
		if err != nil {
			return err
		}
		e.Reason = reason
		if p.Leader == "" {
			return o.elect(ctx, e)
		}
		one, cancel := context.WithTimeout(ctx, handoverTimeout)
		err = o.handOver(one, p.Leader, forward.Transfer{Topic: topic, Incarnation: t.Incarnation, Partition: i, To: e.Leader, Reason: reason})
		cancel()
		switch {
		case err == nil:
			o.awaitChange(ctx, t, i)
			return nil
		case errors.Is(err, ErrUnreachable):
			return o.elect(ctx, e)
		case try == askAgain-1:
			return fmt.Errorf("transfer leadership of %s/%d: %w", topic, i, err)
		}
		if !beat.Pause(ctx, AskPause) {
			return err
		}
	}
	return nil
}

// awaitChange waits until this node knows of a change of a partition that was
// made elsewhere, so that what it says next is of after it. If it does not learn
// of it soon, it is done all the same.
func (o *Operator) awaitChange(ctx context.Context, was *meta.Topic, i int) {
	o.node.await(ctx, o.node.Meta.Changed, func() bool {
		t := o.node.Meta.Topic(was.Name)
		return t == nil || t.Incarnation != was.Incarnation || t.Partitions[i].Version != was.Partitions[i].Version
	})
}

// handOver has the leader of a partition, which may be this node, hand it over.
func (o *Operator) handOver(ctx context.Context, leader meta.NodeID, a forward.Transfer) error {
	if leader == o.node.Self {
		_, err := o.node.host.Transfer(ctx, a)
		return err
	}
	_, err := forward.TransferLeader.Ask(ctx, o.node.Calls, leader, a)
	return reached(err)
}

// elect proposes one election.
func (o *Operator) elect(ctx context.Context, e meta.Election) error {
	r, err := o.node.host.Propose(ctx, meta.ElectLeaders{Elections: []meta.Election{e}})
	if err == nil && len(r.Failed) > 0 {
		err = r.Failed[0]
	}
	if err != nil {
		return fmt.Errorf("%s/%d: %w", e.Topic, e.Partition, err)
	}
	return nil
}

// ElectLeader gives a partition a leader. An unclean election may name any
// replica, and what that one lacks is lost: it is the operator's word, and is
// logged as such.
func (o *Operator) ElectLeader(ctx context.Context, topic string, i int, to meta.NodeID, unclean bool) error {
	s, t, p, err := o.node.find(topic, i)
	if err != nil {
		return err
	}
	if unclean && slices.Contains(p.ISR, to) {
		unclean = false // it lacks nothing
	}
	e, err := controller.Transfer(s, controller.ConditionsOf(s), idOf(t, i), to, unclean)
	if err != nil {
		return err
	}
	if unclean {
		e.Reason = ReasonUnclean
		o.node.Log.Warn("unclean election by operator: messages the new leader lacks are lost",
			"topic", topic, "partition", i, "leader", e.Leader, "isr", p.ISR)
	}
	return o.elect(ctx, e)
}

// ReasonUnclean is the reason of an election that an operator forced.
const ReasonUnclean = "unclean"

// MovePartition starts to move a partition's replicas to other nodes, preferred
// leader first. The controller brings it to its end.
func (o *Operator) MovePartition(ctx context.Context, topic string, i int, target []meta.NodeID) error {
	s, t, _, err := o.node.find(topic, i)
	if err != nil {
		return err
	}
	c, err := controller.PlanMove(s, controller.ConditionsOf(s), controller.Options{}, idOf(t, i), target)
	if err != nil {
		return err
	}
	_, err = o.node.host.Propose(ctx, c)
	return err
}

// CancelMove takes a move back, to the replicas from before it.
func (o *Operator) CancelMove(ctx context.Context, topic string, i int) error {
	s, t, _, err := o.node.find(topic, i)
	if err != nil {
		return err
	}
	c, err := controller.PlanCancel(s, idOf(t, i))
	if err != nil {
		return err
	}
	_, err = o.node.host.Propose(ctx, c)
	return err
}

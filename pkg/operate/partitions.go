package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
)

// partitionAt names a partition.
type partitionAt struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
}

// followersReply is the report of a partition's leader.
type followersReply struct {
	partitionAt
	Followers []api.Copy `json:"followers"`
}

var askFollowers = question[[]partitionAt, []followersReply]{"followers", func(o *Node, _ context.Context, at []partitionAt) ([]followersReply, error) {
	var out []followersReply
	for _, a := range at {
		if all, led := o.followersHere(a); led {
			out = append(out, followersReply{a, all})
		}
	}
	return out, nil
}}

// followers asks the leaders of partitions for the progress of their followers.
func (o *Node) followers(ctx context.Context, s *meta.State, at []partitionAt) map[partitionAt][]api.Copy {
	byLeader := map[meta.NodeID][]partitionAt{}
	for _, a := range at {
		if t := s.Topic(a.Topic); t != nil && t.Partitions[a.Partition].Leader != "" {
			leader := t.Partitions[a.Partition].Leader
			byLeader[leader] = append(byLeader[leader], a)
		}
	}
	nodes := slices.DeleteFunc(o.present(), func(id meta.NodeID) bool { return byLeader[id] == nil })
	out := map[partitionAt][]api.Copy{}
	for _, some := range askAll(ctx, o, askFollowers, nodes, func(id meta.NodeID) []partitionAt { return byLeader[id] }) {
		for _, f := range some {
			out[f.partitionAt] = f.Followers
		}
	}
	return out
}

// progress adds what the moves of partitions must still copy.
func (o *Node) progress(ctx context.Context, s *meta.State, moving []partitionAt, left *api.Progress) {
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
		takes := time.Duration(float64(left.Bytes) / float64(left.BytesPerSecond) * float64(time.Second)).Round(time.Second)
		left.TimeLeft, left.TimeLeftMS = api.Duration(takes), takes.Milliseconds()
	}
}

// find returns a partition with its topic and the metadata.
func (o *Node) find(topic string, i int) (*meta.State, *meta.Topic, *meta.Partition, error) {
	s := o.Meta.View()
	t := s.Topic(topic)
	switch {
	case t == nil:
		return nil, nil, nil, fmt.Errorf("%s: %w", topic, failure.TopicNotFound)
	case i < 0 || i >= len(t.Partitions):
		return nil, nil, nil, fmt.Errorf("%s/%d: %w", topic, i, failure.PartitionNotFound)
	}
	return s, t, &t.Partitions[i], nil
}

func idOf(t *meta.Topic, i int) meta.PartitionID {
	return meta.PartitionID{Topic: t.Name, Incarnation: t.Incarnation, Partition: i}
}

// DescribePartition describes a partition and each of its copies.
func (o *Operator) DescribePartition(ctx context.Context, topic string, i int) (api.PartitionDetail, error) {
	s, t, p, err := o.node.find(topic, i)
	if err != nil {
		return api.PartitionDetail{}, err
	}
	out := api.PartitionDetail{Partition: PartitionOf(topic, i, p)}
	a := copyArgs{PartitionID: idOf(t, i)}
	own := askAll(ctx, o.node, askCopy, o.node.copiesOf(p), func(meta.NodeID) copyArgs { return a })
	at := partitionAt{topic, i}
	seen := o.node.followers(ctx, s, []partitionAt{at})[at]
	for _, id := range p.Replicas {
		c := own[id]
		c.Node, c.InSync = string(id), slices.Contains(p.ISR, id)
		if k := slices.IndexFunc(seen, func(f api.Copy) bool { return f.Node == c.Node }); k >= 0 {
			f := &seen[k]
			c.Seen, c.Connected, c.State, c.Acked, c.Lag, c.LagBytes = true, f.Connected, f.State, f.Acked, f.Lag, f.LagBytes
			c.BytesPerSecond, c.BehindFor, c.BehindForMS = f.BytesPerSecond, f.BehindFor, f.BehindForMS
		}
		if id == p.Leader {
			out.LogStart, out.CommittedEnd, out.LogEnd, out.Bytes = c.LogStart, c.CommittedEnd, c.LogEnd, c.Bytes
		}
		out.Copies = append(out.Copies, c)
	}
	if p.Moving() {
		o.node.progress(ctx, s, []partitionAt{at}, &out.Left)
	}
	out.Troubles = apiTroubles(o.node.troubles(ctx, func(tr controller.Trouble) bool { return tr.Topic == topic && tr.Partition == i }))
	return out, nil
}

// PartitionOf describes a partition from the metadata. topic may be "".
func PartitionOf(topic string, i int, p *meta.Partition) api.Partition {
	return api.Partition{
		Topic: topic, Partition: i, Leader: string(p.Leader), Epoch: uint64(p.Epoch), Replicas: texts(p.Replicas), ISR: texts(p.ISR),
		Adding: texts(p.Adding), Removing: texts(p.Removing),
	}
}

// handoverTimeout bounds how long a leader may take for a graceful transfer.
const handoverTimeout = 2 * time.Second

// TransferLeader transfers leadership of a partition to another in-sync replica, any if to is
// "". The transfer is graceful; a leader that cannot do that is replaced.
func (o *Operator) TransferLeader(ctx context.Context, topic string, i int, to meta.NodeID) error {
	return o.transfer(ctx, topic, i, to, meta.ReasonTransfer)
}

// transfer moves a leadership. A leader that could not transfer it in time, for example because its
// term has just begun, is asked again; nothing has changed then. A leader that cannot be reached is
// replaced without its help.
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
		err = o.handOver(one, p.Leader, forward.Transfer{
			Topic: topic, Incarnation: t.Incarnation, Partition: i, Epoch: p.Epoch, To: e.Leader, Reason: reason,
		})
		cancel()
		switch {
		case err == nil:
			o.awaitChange(ctx, t, i)
			return nil
		case errors.Is(err, failure.Unreachable):
			return o.elect(ctx, e)
		case try == askAgain-1:
			return fmt.Errorf("transfer leadership of %s/%d: %w", topic, i, err)
		}
		if !beat.Pause(ctx, askPause) {
			return err
		}
	}
	return nil
}

// awaitChange waits until this node has applied a change of a partition that was made elsewhere, so
// that its next answers include it. It stops waiting after a while.
func (o *Operator) awaitChange(ctx context.Context, was *meta.Topic, i int) {
	o.node.await(ctx, o.node.Meta.Changed, func() bool {
		t := o.node.Meta.Topic(was.Name)
		return t == nil || t.Incarnation != was.Incarnation || t.Partitions[i].Version != was.Partitions[i].Version
	})
}

// handOver asks the leader of a partition, possibly this node, to transfer it.
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
	return failure.About(fmt.Sprintf("%s/%d", e.Topic, e.Partition), err)
}

// ElectLeader gives a partition a leader. An unclean election may name any replica, and what that
// replica lacks is lost: it is the operator's decision, and is logged as such.
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

// MovePartition starts moving a partition's replicas to other nodes, preferred leader first. The
// controller completes it. A dry run only checks whether it is refused.
func (o *Operator) MovePartition(ctx context.Context, topic string, i int, target []meta.NodeID, dryRun bool) error {
	s, t, _, err := o.node.find(topic, i)
	if err != nil {
		return err
	}
	c, err := controller.PlanMove(s, controller.ConditionsOf(s), controller.Options{}, idOf(t, i), target)
	if err != nil || dryRun {
		return err
	}
	_, err = o.node.host.Propose(ctx, c)
	return err
}

// CancelMove reverts a move to the previous replicas.
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

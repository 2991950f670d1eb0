package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Planner says what changes of topics would do, and what nodes would take. Its methods are safe for concurrent use.
type Planner struct{ Node *Node }

var askLimit = question[forward.Nothing, int]{"limit", func(o *Node, _ context.Context, _ forward.Nothing) (int, error) {
	return o.MaxMessage, nil
}}

// MessageLimit returns the size in bytes of the largest message that every node takes from its clients, and the
// node with this limit. Nodes that do not answer are left out.
func (p Planner) MessageLimit(ctx context.Context) (bytes int, node meta.NodeID) {
	o := p.Node
	bytes, node = o.MaxMessage, o.Self
	for id, n := range askAll(ctx, o, askLimit, o.present(), func(meta.NodeID) forward.Nothing { return forward.Nothing{} }) {
		if n < bytes || n == bytes && id < node {
			bytes, node = n, id
		}
	}
	return bytes, node
}

// PlanTopic plans the creation of a topic, and of channels in it: see directory.Plans. Like the change itself,
// a plan needs a leader of the metadata.
func (p Planner) PlanTopic(ctx context.Context, name string, cfg meta.TopicConfig, channels ...meta.CreateChannel) (*meta.Topic, error) {
	for _, c := range channels {
		if err := checkEphemeral(c); err != nil {
			return nil, err
		}
	}
	return p.plan(func(d directory.Plans) (*meta.Topic, error) { return d.Topic(ctx, name, cfg, channels...) })
}

// PlanAlter plans a change of a topic's configuration.
func (p Planner) PlanAlter(ctx context.Context, name string, change func(*meta.TopicConfig)) (*meta.Topic, error) {
	return p.plan(func(d directory.Plans) (*meta.Topic, error) {
		t, err := d.Alter(ctx, name, change)
		if err != nil {
			return nil, err
		}
		s := p.Node.Meta.View()
		was := s.Topic(name)
		for i := range t.Partitions {
			q := &t.Partitions[i]
			if was != nil && t.Config.Replicas != was.Config.Replicas && len(q.Replicas) != t.Config.Replicas && !q.Moving() {
				if _, err := fitted(s, controller.ConditionsOf(s), q, t.Config.Replicas); err != nil {
					return nil, fmt.Errorf("%s/%d: %w", name, i, err)
				}
			}
		}
		return t, nil
	})
}

// PlanPartitions plans the addition of partitions to a topic.
func (p Planner) PlanPartitions(ctx context.Context, name string, total int) (*meta.Topic, error) {
	return p.plan(func(d directory.Plans) (*meta.Topic, error) { return d.Partitions(ctx, name, total) })
}

// PlanChannel plans a meta.CreateChannel or a meta.AlterChannel.
func (p Planner) PlanChannel(ctx context.Context, c meta.Command) (*meta.Topic, error) {
	return p.plan(func(d directory.Plans) (*meta.Topic, error) {
		if create, is := c.(meta.CreateChannel); is {
			if err := checkEphemeral(create); err != nil {
				return nil, err
			}
		}
		return d.Channel(ctx, c)
	})
}

// PlanRestore plans the restore of a deleted topic.
func (p Planner) PlanRestore(ctx context.Context, c meta.RestoreTopic) (*meta.Topic, error) {
	return p.plan(func(d directory.Plans) (*meta.Topic, error) { return d.Restore(ctx, c) })
}

// Decidable returns why the metadata cannot be changed, which has had no leader for a while; nil if it can.
func (p Planner) Decidable() error {
	_, err := decidable(p.Node)
	return err
}

func (p Planner) plan(f func(directory.Plans) (*meta.Topic, error)) (*meta.Topic, error) {
	if _, err := decidable(p.Node); err != nil {
		return nil, err
	}
	return f(directory.Plans{Of: p.Node.topics, Admits: p.Node.admits})
}

// admitArgs are encoded commands that the metadata leader would be asked to take.
type admitArgs struct {
	Commands [][]byte `json:"commands"`
}

var askAdmit = question[admitArgs, forward.Nothing]{"admit", func(o *Node, _ context.Context, a admitArgs) (forward.Nothing, error) {
	for _, raw := range a.Commands {
		c, err := meta.DecodeCommand(raw)
		if err != nil {
			return forward.Nothing{}, fate.Mark(err, fate.Refused)
		}
		if err := o.Meta.Members().Admits(c, len(raw)); err != nil {
			return forward.Nothing{}, err
		}
	}
	return forward.Nothing{}, nil
}}

// admits returns why the metadata leader would not take commands now.
func (o *Node) admits(ctx context.Context, commands []meta.Command) error {
	var a admitArgs
	for _, c := range commands {
		raw, err := meta.EncodeCommandAt(c, time.Now().UnixNano())
		if err != nil {
			return err
		}
		a.Commands = append(a.Commands, raw)
	}
	leader := o.Self
	if !o.Meta.IsLeader() {
		var known bool
		if leader, known = o.Meta.Leader(); !known {
			return failure.NotController
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := askAdmit.ask(ctx, o, leader, a)
	return err
}

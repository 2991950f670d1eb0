package operate

import (
	"context"
	"fmt"

	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/directory"
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
func (p Planner) PlanTopic(name string, cfg meta.TopicConfig, channels ...meta.CreateChannel) (*meta.Topic, error) {
	for _, c := range channels {
		if err := checkEphemeral(c); err != nil {
			return nil, err
		}
	}
	return p.plan(func(d directory.Plans) (*meta.Topic, error) { return d.Topic(name, cfg, channels...) })
}

// PlanAlter plans a change of a topic's configuration.
func (p Planner) PlanAlter(name string, change func(*meta.TopicConfig)) (*meta.Topic, error) {
	return p.plan(func(d directory.Plans) (*meta.Topic, error) {
		t, err := d.Alter(name, change)
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
func (p Planner) PlanPartitions(name string, total int) (*meta.Topic, error) {
	return p.plan(func(d directory.Plans) (*meta.Topic, error) { return d.Partitions(name, total) })
}

// PlanChannel plans a meta.CreateChannel or a meta.AlterChannel.
func (p Planner) PlanChannel(c meta.Command) (*meta.Topic, error) {
	return p.plan(func(d directory.Plans) (*meta.Topic, error) {
		if create, is := c.(meta.CreateChannel); is {
			if err := checkEphemeral(create); err != nil {
				return nil, err
			}
		}
		return d.Channel(c)
	})
}

func (p Planner) plan(f func(directory.Plans) (*meta.Topic, error)) (*meta.Topic, error) {
	if _, err := decidable(p.Node); err != nil {
		return nil, err
	}
	return f(directory.Plans{Of: p.Node.topics})
}

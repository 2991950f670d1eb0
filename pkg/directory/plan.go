package directory

import (
	"context"
	"fmt"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
)

// Plans says what changes of topics and channels would do: each method returns the topic that the change
// would leave, or the error with which it would be refused now. Nothing is changed.
type Plans struct {
	Of *Directory
	// Admits returns why the metadata leader would not take the commands now, for lack of disk space for example. nil:
	// it is not asked.
	Admits func(ctx context.Context, commands []meta.Command) error
}

// Topic plans CreateTopic, and the creation of channels in the topic.
func (p Plans) Topic(ctx context.Context, name string, cfg meta.TopicConfig, channels ...meta.CreateChannel) (*meta.Topic, error) {
	if !meta.ValidTopicName(name) {
		return nil, fmt.Errorf("%w: %q", failure.InvalidTopic, name)
	}
	cfg, assignment, err := placer{&p.Of.o}.place(name, cfg)
	if err != nil {
		return nil, err
	}
	all := []meta.Command{meta.CreateTopic{Name: name, Config: cfg, Assignment: assignment}}
	for _, c := range channels {
		if !meta.IsEphemeral(c.Channel) {
			c.Order = orderIn(cfg, c.Order)
			all = append(all, c)
		}
	}
	t, err := p.try(ctx, all...)
	if err != nil || p.Of.o.Meta.Topic(name) != nil {
		return t, err
	}
	planned := *t
	planned.Incarnation = 0 // not known yet
	return &planned, nil
}

// Alter plans AlterTopic.
func (p Plans) Alter(ctx context.Context, name string, change func(*meta.TopicConfig)) (*meta.Topic, error) {
	c, err := p.Of.alteration(name, change)
	if err != nil {
		return nil, err
	}
	return p.try(ctx, c)
}

// Partitions plans AddPartitions.
func (p Plans) Partitions(ctx context.Context, name string, total int) (*meta.Topic, error) {
	c, err := p.Of.addition(name, total)
	if err != nil {
		return nil, err
	}
	return p.try(ctx, c)
}

// Channel plans the creation of a channel, or the change of one. An ephemeral channel is not in the metadata.
func (p Plans) Channel(ctx context.Context, c meta.Command) (*meta.Topic, error) {
	if create, is := c.(meta.CreateChannel); is {
		t, err := p.Of.Topic(create.Topic)
		if err != nil || meta.IsEphemeral(create.Channel) {
			return t, err
		}
		create.Order = orderIn(t.Config, create.Order)
		c = create
	}
	return p.try(ctx, c)
}

// Restore plans Trash.Restore.
func (p Plans) Restore(ctx context.Context, c meta.RestoreTopic) (*meta.Topic, error) {
	return p.try(ctx, c)
}

// try applies commands to a copy of the metadata, and returns the topic of the last one.
func (p Plans) try(ctx context.Context, commands ...meta.Command) (*meta.Topic, error) {
	s := p.Of.o.Meta.View().Snapshot()
	var t *meta.Topic
	var created []int
	for _, c := range commands {
		if creates(s, c) {
			created = append(created, creations(c))
		}
		r := s.Apply(s.Index()+1, c)
		if r.Err != nil {
			return nil, host.OfThisIncarnation(r.Err)
		}
		t = r.Topic
	}
	if err := limit.MayCreate(ctx, created...); err != nil {
		return nil, err
	}
	if p.Admits != nil {
		return t, p.Admits(ctx, commands)
	}
	return t, nil
}

// creations returns what a command counts for among creations: each partition costs a node as much as a topic of one.
func creations(c meta.Command) int {
	switch c := c.(type) {
	case meta.CreateTopic:
		return len(c.Assignment)
	case meta.AddPartitions:
		return len(c.Assignment)
	case meta.CreateChannel:
		return 1
	}
	return 0
}

// creates reports whether a command creates a topic, partitions or a channel that do not exist.
func creates(s *meta.State, c meta.Command) bool {
	switch c := c.(type) {
	case meta.CreateTopic:
		return s.Topic(c.Name) == nil
	case meta.AddPartitions:
		return true
	case meta.CreateChannel:
		t := s.Topic(c.Topic)
		return t != nil && t.Channels[c.Channel] == nil
	}
	return false
}

// orderIn returns the order of a new channel of a topic: one of an ordered topic that names none is strict.
func orderIn(cfg meta.TopicConfig, order policy.Order) policy.Order {
	if cfg.Ordered && !order.Some() {
		return policy.Strict
	}
	return order
}

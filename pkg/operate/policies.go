package operate

import (
	"context"
	"fmt"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
)

// Policies gives operators access to how channels treat failed messages. Its methods are safe for
// concurrent use.
type Policies struct{ o *Contents }

// Policies returns the Policies of the node.
func (o *Contents) Policies() Policies { return Policies{o} }

// ChannelDefaults returns the policy of channels without a choice of their own or of their topics.
func (p Policies) ChannelDefaults() policy.Policy { return p.o.node.Meta.Settings().ChannelDefaults() }

// CreateChannel creates a channel of an existing topic, with a policy. An existing channel is no
// error, and is not changed.
func (p Policies) CreateChannel(ctx context.Context, c meta.CreateChannel) error {
	if meta.IsEphemeral(c.Channel) && c.Filter != "" {
		return fmt.Errorf("%w: ephemeral channel %q cannot have a filter", failure.InvalidConfig, c.Channel)
	}
	if meta.IsEphemeral(c.Channel) && c.Policy != (policy.Policy{}) {
		return fmt.Errorf("%w: ephemeral channel %q has the policy of its topic", failure.InvalidConfig, c.Channel)
	}
	err := p.o.node.topics.EnsureChannel(ctx, c)
	if h := p.o.node.host.Lookup(c.Topic); h != nil && err == nil {
		h.Use()
	}
	return err
}

// AlterChannel changes a durable channel, at every leader of its topic.
func (p Policies) AlterChannel(ctx context.Context, c meta.AlterChannel) error {
	return p.o.node.topics.Change(ctx, c.Topic, c)
}

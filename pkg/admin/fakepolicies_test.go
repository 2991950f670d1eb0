package admin

import (
	"context"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
)

// fakePolicies is a fake as those see it who change channels.
type fakePolicies struct{ f *fake }

func (p fakePolicies) ChannelDefaults() policy.Policy { return policy.Policy{} }

func (p fakePolicies) CreateChannel(ctx context.Context, c meta.CreateChannel) error {
	if err := p.f.CreateChannel(ctx, c.Topic, c.Channel, c.Ordered); err != nil {
		return err
	}
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	if ch := p.f.topics[c.Topic].Channels[c.Channel]; ch != nil {
		ch.Policy = c.Policy
	}
	return nil
}

func (p fakePolicies) AlterChannel(_ context.Context, c meta.AlterChannel) error {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	if err := p.f.call("alter " + c.Topic + "/" + c.Channel); err != nil {
		return err
	}
	ch := p.f.topics[c.Topic].Channels[c.Channel]
	if ch == nil {
		return meta.ErrChannelNotFound
	}
	if c.Ordered != nil {
		ch.Ordered = *c.Ordered
	}
	ch.Policy = c.Policy.Apply(ch.Policy)
	return nil
}

package admin

import (
	"context"
	"fmt"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/policy"
)

// fakePolicies is a fake with the methods that change channels.
type fakePolicies struct{ f *fake }

func (p fakePolicies) ChannelDefaults() policy.Policy { return policy.Policy{} }

func (p fakePolicies) CreateChannel(ctx context.Context, c meta.CreateChannel) error {
	if err := p.f.CreateChannel(ctx, c.Topic, c.Channel, c.Order.Some()); err != nil {
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
		return failure.ChannelNotFound
	}
	if c.Order != nil {
		ch.Order = *c.Order
	}
	ch.Policy = c.Policy.Apply(ch.Policy)
	return nil
}

func (p fakePolicies) LettersOf(t *meta.Topic, channel string) string {
	name := meta.DeadLetterTopic(meta.PolicyOf(t, channel, policy.Policy{}), t.Name, channel)
	if _, err := p.f.Topic(name); err != nil {
		return ""
	}
	return name
}

func (p fakePolicies) DeadLetters(_ context.Context, topic, channel string) []api.DeadLetters {
	return []api.DeadLetters{{
		Topic: topic, Channel: channel, DeadLetterTopic: topic + "." + channel + ".dlq", MaxAttempts: 5, OnExhausted: api.OnExhaustedDeadLetter,
		Waiting: 7, Exhausted: 1, DeadLetteredTotal: 9, DroppedTotal: 2,
	}}
}

func (p fakePolicies) RedriveOrPurge(_ context.Context, a operate.DeadLetterAction) (deadletter.Processed, error) {
	return deadletter.Processed{Letters: a.Max, More: true, Skipped: 2}, p.f.locked(fmt.Sprintf("redrive or purge %+v", a))
}

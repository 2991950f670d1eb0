package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/topic"
)

// govern gives a channel the policy that metadata has for it, with the cluster's defaults.
func (h *hostedTopic) govern(c *topic.Channel, t *meta.Topic, defaults policy.Policy) {
	p := meta.PolicyOf(t, c.Name(), defaults)
	topic.RetriesOf(c).SetPolicy(p, h.rates.Of(c.Name(), p.Rate, time.Now()))
}

// addEphemeral makes sure that a partition has an ephemeral channel.
func (h *hostedTopic) addEphemeral(lp *ledPartition, channel string, ordered bool, defaults policy.Policy) (*topic.Channel, error) {
	c, err := lp.part.AddChannel(channel, 0, topic.ChannelOptions{Ordered: ordered, Ephemeral: true})
	if err == nil {
		h.govern(c, h.config.Load(), defaults)
	}
	return c, err
}

// letterbox is the node as the worker for dead letters sees it.
type letterbox struct{ b *Broker }

// Prepare implements deadletter.Node. The topic is made whatever the settings say of topics
// that are used for the first time: the policy asks for it.
func (l letterbox) Prepare(ctx context.Context, name, origin string) error {
	ctx = limit.Uncounted(ctx)
	t := l.b.o.Meta.Topic(name)
	if t != nil && t.Channels[deadletter.Channel] != nil {
		return nil
	}
	if t == nil {
		var cfg meta.TopicConfig
		if from := l.b.o.Meta.Topic(origin); from != nil && !meta.IsEphemeral(origin) {
			cfg.Sync = from.Config.Sync
			if !from.Config.AutoReplicas {
				cfg.Replicas = from.Config.Replicas
			}
			if !from.Config.AutoMinISR {
				cfg.MinISR = from.Config.MinISR
			}
		}
		if _, err := l.b.CreateTopic(ctx, name, cfg); err != nil && !errors.Is(err, ErrTopicExists) {
			return err
		}
	}
	return l.b.CreateChannel(ctx, name, deadletter.Channel, false)
}

// Deliver implements deadletter.Node.
func (l letterbox) Deliver(ctx context.Context, name string, partition int, m topic.Message, done func(error)) {
	l.b.Publish(ctx, Publish{
		Topic: name, Partition: max(partition, AnyPartition), Messages: []topic.Message{m},
		Done: func(r Receipt) { done(r.Err) },
	})
}

// failingReasons says which channels here have messages that had all their attempts, and keep them.
func failingReasons(topics []*hostedTopic, w *deadletter.Worker) (reasons []health.Reason) {
	var blocked, refused []string
	for _, h := range topics {
		for _, lp := range h.led() {
			for _, c := range lp.part.Channels() {
				if topic.RetriesOf(c).Policy().OnExhausted != policy.Block {
					continue
				}
				if s := c.Stats(); s.Blocked != nil {
					blocked = append(blocked, fmt.Sprintf("%s/%s partition %d seq %d", h.name, c.Name(), lp.index, *s.Blocked))
				}
			}
		}
	}
	if len(blocked) > 0 {
		slices.Sort(blocked)
		reasons = append(reasons, health.Reason{
			Code: "messages_blocked", Count: len(blocked),
			What: "messages have had all their attempts and are not delivered (on-exhausted block): " + health.Names(blocked),
		})
	}
	for _, x := range w.Troubles() {
		refused = append(refused, fmt.Sprintf("%s (%v)", x.Name, x.Err))
	}
	if len(refused) > 0 {
		reasons = append(reasons, health.Reason{
			Code: "dead_letters_refused", Count: len(refused),
			What: "messages that have had all their attempts stay in their channels, retrying: " + health.Names(refused),
		})
	}
	return reasons
}

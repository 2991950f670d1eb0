package broker

import (
	"context"
	"errors"

	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

// deadLetterNode is the part of the node that the worker for dead letters uses.
type deadLetterNode struct {
	meta      *raftstore.Store
	topics    *directory.Directory
	publishes *publish.Router
}

// Prepare implements deadletter.Node. The topic is created even if topics are not created
// on first use, because the policy demands it.
func (l deadLetterNode) Prepare(ctx context.Context, name, origin string) error {
	ctx = limit.Uncounted(ctx)
	t := l.meta.Topic(name)
	if t != nil && t.Channels[deadletter.Channel] != nil {
		return nil
	}
	if t == nil {
		cfg := meta.TopicConfig{DedupWindow: meta.DefaultDedupWindow} // letters have ids
		if from := l.meta.Topic(origin); from != nil && !meta.IsEphemeral(origin) {
			cfg.Sync = from.Config.Sync
			if !from.Config.AutoReplicas {
				cfg.Replicas = from.Config.Replicas
			}
			if !from.Config.AutoMinISR {
				cfg.MinISR = from.Config.MinISR
			}
		}
		if _, err := l.topics.CreateTopic(ctx, name, cfg); err != nil && !errors.Is(err, failure.TopicExists) {
			return err
		}
	}
	return l.topics.CreateChannel(ctx, name, deadletter.Channel, false)
}

// Deliver implements deadletter.Node.
func (l deadLetterNode) Deliver(ctx context.Context, name string, partition int, m topic.Message, done func(error)) {
	l.publishes.Publish(ctx, publish.Request{
		Topic: name, Partition: max(partition, host.AnyPartition), Messages: []topic.Message{m},
		Done: func(r topic.Receipt) { done(r.Err) },
	})
}

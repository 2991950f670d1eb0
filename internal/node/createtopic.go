package node

import (
	"context"
	"errors"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/server"
)

// createTopic makes sure that a topic has a number of partitions, for an NSQ client. It
// refuses to in a cluster of several nodes, where replicas have to be chosen.
func createTopic(ctx context.Context, b *broker.Broker, name string, partitions int, ext bool) error {
	if len(b.Operator.Cluster().Nodes) > 1 {
		return server.ErrClustered
	}
	t, err := b.Directory.Topic(name)
	switch {
	case err != nil:
		_, err = b.Directory.CreateTopic(ctx, name, meta.TopicConfig{Partitions: partitions, Ext: ext})
		if errors.Is(err, failure.TopicExists) { // someone else has made it meanwhile
			return nil
		}
		return err
	case len(t.Partitions) < partitions:
		return b.Directory.AddPartitions(ctx, name, partitions)
	}
	return nil
}

package publish

import (
	"context"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/topic"
)

// clientKey is where a context has who publishes.
type clientKey struct{}

// maxClient is how much of a publisher's name is kept.
const maxClient = 128

// WithClient returns a context for the publishes of a client, which traces name.
func WithClient(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, clientKey{}, name[:min(len(name), maxClient)])
}

// sign says of messages of a topic that is traced who publishes them through which node. The
// first one says it for all.
func sign(ctx context.Context, self meta.NodeID, messages []topic.Message) {
	if len(messages) > 0 && messages[0].From == nil {
		client, _ := ctx.Value(clientKey{}).(string)
		messages[0].From = &record.Publisher{Client: client, Node: string(self)}
	}
}

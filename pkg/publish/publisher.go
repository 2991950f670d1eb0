package publish

import (
	"context"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/topic"
)

// clientKey is the context key of the publisher's name.
type clientKey struct{}

// maxClient is how many bytes of a publisher's name are kept.
const maxClient = 128

// WithClient returns a context for the publishes of a client, whose name appears in traces.
func WithClient(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, clientKey{}, name[:min(len(name), maxClient)])
}

// sign adds the publisher, and the node that received the publish, to the messages of a traced
// topic. The first message carries them for all.
func sign(ctx context.Context, self meta.NodeID, messages []topic.Message) {
	if len(messages) > 0 && messages[0].From == nil {
		client, _ := ctx.Value(clientKey{}).(string)
		messages[0].From = &record.Publisher{Client: client, Node: string(self)}
	}
}

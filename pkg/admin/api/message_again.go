package api

import (
	"context"
	"net/url"
)

// RequeueMessage redelivers a stored message to one channel; other channels skip it.
func (h History) RequeueMessage(ctx context.Context, topic, channel, id string) (*Published, error) {
	return post[Published](ctx, h.t, path("topics", topic, "channels", channel, "messages", id, "requeue"), nil)
}

// CopyMessage publishes a stored message to a topic.
func (h History) CopyMessage(ctx context.Context, topic, id, to string) (*Published, error) {
	return post[Published](ctx, h.t, path("topics", topic, "messages", id, "copy")+"?"+url.Values{"to": {to}}.Encode(), nil)
}

package api

import (
	"context"
	"net/http"
	"net/url"
)

// RequeueMessage redelivers a stored message to one channel; other channels skip it.
func (h History) RequeueMessage(ctx context.Context, topic, channel, id string) (*Published, error) {
	out := new(Published)
	return out, h.t.send(ctx, http.MethodPost, path("topics", topic, "channels", channel, "messages", id, "requeue"), nil, out)
}

// CopyMessage publishes a stored message to a topic.
func (h History) CopyMessage(ctx context.Context, topic, id, to string) (*Published, error) {
	out := new(Published)
	return out, h.t.send(ctx, http.MethodPost, path("topics", topic, "messages", id, "copy")+"?"+url.Values{"to": {to}}.Encode(), nil, out)
}

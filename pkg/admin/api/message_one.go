package api

import (
	"context"
	"net/http"
	"net/url"
)

// MessageDetail is a message and what it is to the channels of its topic.
type MessageDetail struct {
	Topic string `json:"topic"`
	Peeked
	Channels []MessageChannel `json:"channels"` // by name
}

// MessageChannel is what a message is to a channel. The attempts of a finished one are
// not remembered.
type MessageChannel struct {
	Channel  string    `json:"channel"`
	State    PeekState `json:"state"`
	Attempts uint16    `json:"attempts"`
}

// FinishedMessage is a message that was finished in a channel by an operator.
type FinishedMessage struct {
	Topic     string    `json:"topic"`
	Channel   string    `json:"channel"`
	ID        string    `json:"id"`
	Partition int       `json:"partition"`
	Seq       uint64    `json:"seq"`
	Was       PeekState `json:"was"` // where it was before; finished: nothing was done
}

// Message returns a message by its id, and what it is to a channel of its topic; "": to
// all.
func (i Insights) Message(ctx context.Context, topic, id, channel string) (*MessageDetail, error) {
	q := url.Values{}
	if channel != "" {
		q.Set("channel", channel)
	}
	out := new(MessageDetail)
	return out, i.t.get(ctx, path("topics", topic, "messages", id), q, out)
}

// History are the requests that move channels over the messages that are kept, and
// take that back.
type History struct{ t *transport }

// FinishMessage finishes a message in a channel as if a consumer had, wherever it is.
// The FIN of a consumer that has it fails then.
func (h History) FinishMessage(ctx context.Context, topic, channel, id string) (*FinishedMessage, error) {
	out := new(FinishedMessage)
	return out, h.t.send(ctx, http.MethodPost, path("topics", topic, "channels", channel, "messages", id, "finish"), nil, out)
}

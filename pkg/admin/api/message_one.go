package api

import (
	"context"
	"net/url"
)

// MessageDetail is a message and its state in the channels of its topic.
type MessageDetail struct {
	Topic string `json:"topic"`
	Peeked
	Channels []MessageChannel `json:"channels"` // by name
}

// MessageChannel is the state of a message in a channel. Attempts of finished messages are not
// kept.
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
	Was       PeekState `json:"was"` // the previous state; finished: nothing was changed
}

// Message returns a message by its id, and its state in a channel of its topic; "" means all
// channels.
func (i Insights) Message(ctx context.Context, topic, id, channel string) (*MessageDetail, error) {
	q := url.Values{}
	if channel != "" {
		q.Set("channel", channel)
	}
	return find[MessageDetail](ctx, i.t, path("topics", topic, "messages", id), q)
}

// History are the requests that move channels and undo moves.
type History struct{ t *transport }

// FinishMessage finishes a message in a channel, whatever its state. If a consumer has it in
// flight, that consumer's FIN fails.
func (h History) FinishMessage(ctx context.Context, topic, channel, id string) (*FinishedMessage, error) {
	return post[FinishedMessage](ctx, h.t, path("topics", topic, "channels", channel, "messages", id, "finish"), nil)
}

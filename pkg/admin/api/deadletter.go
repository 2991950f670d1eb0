package api

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
)

// DeadLetters describes the dead letters of one channel.
type DeadLetters struct {
	Topic           string `json:"topic"`
	Channel         string `json:"channel"`
	DeadLetterTopic string `json:"dead_letter_topic"`
	MaxAttempts     int    `json:"max_attempts"` // 0: no limit
	OnExhausted     string `json:"on_exhausted"`
	OnExpired       string `json:"on_expired"`
	// Waiting counts the dead letters in the topic that are neither redriven nor purged. If
	// several channels share the topic, it counts all of theirs.
	Waiting int64 `json:"waiting"`
	// Exhausted counts messages in the channel that used up their attempts: they wait to become
	// dead letters, or block.
	Exhausted int64 `json:"exhausted"`
	// Expired counts expired messages in the channel that wait to become dead letters.
	Expired           int64  `json:"expired"`
	DeadLetteredTotal uint64 `json:"dead_lettered_total"` // since the nodes started
	DroppedTotal      uint64 `json:"dropped_total"`
}

// DeadLetterList lists the channels that have dead letters or may have some, by topic and name.
type DeadLetterList struct {
	Channels []DeadLetters `json:"channels"`
}

// DeadLetterOrigin identifies the origin of a dead letter: the value of dead_letter in its header.
type DeadLetterOrigin struct {
	Topic            string          `json:"topic"`
	Partition        int             `json:"partition"`
	Offset           uint64          `json:"offset"`
	ID               string          `json:"id"` // as clients see it
	Channel          string          `json:"channel"`
	FirstTimestampNS int64           `json:"first_timestamp_ns"` // of its publish, since 1970
	Attempts         uint16          `json:"attempts"`
	LastConsumer     string          `json:"last_consumer,omitempty"` // "": unknown
	Reason           string          `json:"reason"`                  // max-attempts or expired
	Earlier          int             `json:"earlier,omitempty"`       // how often it became a dead letter before, of other dead-letter topics
	Header           json.RawMessage `json:"header,omitempty"`        // the message's own
	HeaderBase64     []byte          `json:"header_base64,omitempty"` // the same, if JSON text cannot represent its strings; then Header is absent
}

// DeadLetter is a dead letter returned by a peek.
type DeadLetter struct {
	Origin DeadLetterOrigin `json:"origin"`
	Peeked
}

// DeadLetterMessages are dead letters of a channel, in the order of the dead-letter topic.
type DeadLetterMessages struct {
	Messages []DeadLetter `json:"messages"`
}

// DeadLetterAction requests to redrive, or to purge, up to Max dead letters.
type DeadLetterAction struct {
	Max    int  `json:"max"`
	DryRun bool `json:"dry_run,omitempty"` // count them only
	// Filter selects dead letters by the header, key and other properties of the original
	// message.
	Filter string `json:"filter,omitempty"`
}

// DeadLetterResult reports how many letters were redriven or purged, or would be in a dry run.
type DeadLetterResult struct {
	Topic   string `json:"topic"`
	Channel string `json:"channel"`
	Count   int    `json:"count"`
	More    bool   `json:"more"`    // there are more than Max
	Skipped int    `json:"skipped"` // are with a consumer of the dead-letter topic, or deferred there
	DryRun  bool   `json:"dry_run"`
}

// DeadLetterClient manages dead letters. Its methods are safe for concurrent use.
type DeadLetterClient struct{ c *Client }

// DeadLettersOf returns a DeadLetterClient that uses c.
func DeadLettersOf(c *Client) DeadLetterClient { return DeadLetterClient{c} }

// List returns the channels that have dead letters or may have some. An empty name matches all.
// With a filter, Waiting counts only matching dead letters.
func (d DeadLetterClient) List(ctx context.Context, topic, channel, filter string) ([]DeadLetters, error) {
	q := url.Values{}
	if filter != "" {
		q.Set("filter", filter)
	}
	if topic != "" {
		q.Set("topic", topic)
	}
	if channel != "" {
		q.Set("channel", channel)
	}
	var out DeadLetterList
	err := d.c.t.get(ctx, path("dead-letters"), q, &out)
	return out.Channels, err
}

// Peek returns the first dead letters of a channel that match filter ("" matches all) without
// consuming them.
func (d DeadLetterClient) Peek(ctx context.Context, topic, channel string, max int, filter string) ([]DeadLetter, error) {
	var out DeadLetterMessages
	q := url.Values{"n": {strconv.Itoa(max)}}
	if filter != "" {
		q.Set("filter", filter)
	}
	err := d.c.t.get(ctx, path("topics", topic, "channels", channel, "dead-letters"), q, &out)
	return out.Messages, err
}

// Redrive returns dead letters to the channel that failed.
func (d DeadLetterClient) Redrive(ctx context.Context, topic, channel string, req DeadLetterAction) (*DeadLetterResult, error) {
	return d.redriveOrPurge(ctx, topic, channel, "redrive", req)
}

// Purge finishes dead letters.
func (d DeadLetterClient) Purge(ctx context.Context, topic, channel string, req DeadLetterAction) (*DeadLetterResult, error) {
	return d.redriveOrPurge(ctx, topic, channel, "purge", req)
}

func (d DeadLetterClient) redriveOrPurge(ctx context.Context, topic, channel, verb string, req DeadLetterAction) (*DeadLetterResult, error) {
	return post[DeadLetterResult](ctx, &d.c.t, path("topics", topic, "channels", channel, "dead-letters", verb), req)
}

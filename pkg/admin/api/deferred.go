package api

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// DeferredMessage is a message that a channel defers until a time.
type DeferredMessage struct {
	ID        string    `json:"id"`
	Partition int       `json:"partition"`
	Seq       uint64    `json:"seq"`
	Due       time.Time `json:"due"`
	Attempts  uint16    `json:"attempts"`
	Bytes     int       `json:"bytes"` // of its body; -1: it cannot be read
	Why       string    `json:"why"`   // published (its publisher deferred it), requeued or backoff
}

// DeferredList is a page of a channel's deferred messages, ordered by due time.
type DeferredList struct {
	Topic    string            `json:"topic"`
	Channel  string            `json:"channel"`
	Total    int               `json:"total"` // of the window that was asked for
	Messages []DeferredMessage `json:"messages"`
	// Next is the start of the next page; "" if none.
	Next string `json:"next,omitempty"`
}

// DeferredQuery selects deferred messages. Zero times are unbounded.
type DeferredQuery struct {
	Since time.Time // due then or later
	Until time.Time // due before
	Max   int       // 0: only how many there are
	Next  string    // of the page before
}

// Reschedule cancels or advances deferred messages: by id, by due time, or all.
type Reschedule struct {
	IDs    []string   `json:"ids,omitempty"` // up to 1000
	Since  *time.Time `json:"since,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
	All    bool       `json:"all,omitempty"`
	DryRun bool       `json:"dry_run,omitempty"` // count them without changing anything
}

// Rescheduled reports what was changed.
type Rescheduled struct {
	Topic       string            `json:"topic"`
	Channel     string            `json:"channel"`
	Action      string            `json:"action"` // cancelled or advanced
	Count       int               `json:"count"`
	NotDeferred []string          `json:"not_deferred"` // of the named ones: waiting, in flight, finished or not found
	Partitions  []RescheduledPart `json:"partitions"`
	DryRun      bool              `json:"dry_run"`
}

// RescheduledPart is the change in one partition.
type RescheduledPart struct {
	Partition int `json:"partition"`
	Count     int `json:"count"`
}

// DeferredClient manages deferred messages. Its methods are safe for concurrent use.
type DeferredClient struct{ c *Client }

// DeferredOf returns a DeferredClient that uses c.
func DeferredOf(c *Client) DeferredClient { return DeferredClient{c} }

// List returns a page of the deferred messages of a channel, ordered by due time.
func (d DeferredClient) List(ctx context.Context, topic, channel string, q DeferredQuery) (*DeferredList, error) {
	v := url.Values{"n": {strconv.Itoa(q.Max)}}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	if !q.Until.IsZero() {
		v.Set("until", q.Until.Format(time.RFC3339Nano))
	}
	if q.Next != "" {
		v.Set("next", q.Next)
	}
	return find[DeferredList](ctx, &d.c.t, path("topics", topic, "channels", channel, "deferred"), v)
}

// Cancel finishes deferred messages without delivery.
func (d DeferredClient) Cancel(ctx context.Context, topic, channel string, r Reschedule) (*Rescheduled, error) {
	return d.change(ctx, topic, channel, "cancel", r)
}

// Advance makes deferred messages due now.
func (d DeferredClient) Advance(ctx context.Context, topic, channel string, r Reschedule) (*Rescheduled, error) {
	return d.change(ctx, topic, channel, "advance", r)
}

func (d DeferredClient) change(ctx context.Context, topic, channel, verb string, r Reschedule) (*Rescheduled, error) {
	return post[Rescheduled](ctx, &d.c.t, path("topics", topic, "channels", channel, "deferred", verb), r)
}

package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// DeferredMessage is a message that a channel does not deliver before a time.
type DeferredMessage struct {
	ID        string    `json:"id"`
	Partition int       `json:"partition"`
	Seq       uint64    `json:"seq"`
	Due       time.Time `json:"due"`
	Attempts  uint16    `json:"attempts"`
	Bytes     int       `json:"bytes"` // of its body; -1: it cannot be read
	Why       string    `json:"why"`   // published (its publisher deferred it), requeued or backoff
}

// DeferredList is a page of the deferred messages of a channel, by when they are due.
type DeferredList struct {
	Topic    string            `json:"topic"`
	Channel  string            `json:"channel"`
	Total    int               `json:"total"` // of the window that was asked for
	Messages []DeferredMessage `json:"messages"`
	// Next is where the next page goes on; "": there is none.
	Next string `json:"next,omitempty"`
}

// DeferredQuery asks for deferred messages. Zero times do not bound it.
type DeferredQuery struct {
	Since time.Time // due then or later
	Until time.Time // due before
	Max   int       // 0: only how many there are
	Next  string    // of the page before
}

// Reschedule cancels or advances deferred messages: those that it names, or those that are
// due in a window, or all.
type Reschedule struct {
	IDs    []string   `json:"ids,omitempty"` // up to 1000
	Since  *time.Time `json:"since,omitempty"`
	Until  *time.Time `json:"until,omitempty"`
	All    bool       `json:"all,omitempty"`
	DryRun bool       `json:"dry_run,omitempty"` // count them and change nothing
}

// Rescheduled says what was done.
type Rescheduled struct {
	Topic       string            `json:"topic"`
	Channel     string            `json:"channel"`
	Action      string            `json:"action"` // cancelled or advanced
	Count       int               `json:"count"`
	NotDeferred []string          `json:"not_deferred"` // of the named ones: they are waiting, in flight, finished or not there
	Partitions  []RescheduledPart `json:"partitions"`
	DryRun      bool              `json:"dry_run"`
}

// RescheduledPart is what was done in one partition.
type RescheduledPart struct {
	Partition int `json:"partition"`
	Count     int `json:"count"`
}

// DeferredClient asks about deferred messages. Its methods may be called by many goroutines.
type DeferredClient struct{ c *Client }

// DeferredOf returns what asks the brokers of a client about deferred messages.
func DeferredOf(c *Client) DeferredClient { return DeferredClient{c} }

// List returns a page of the deferred messages of a channel, by when they are due.
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
	out := new(DeferredList)
	return out, d.c.t.get(ctx, path("topics", topic, "channels", channel, "deferred"), v, out)
}

// Cancel finishes deferred messages: they are not delivered.
func (d DeferredClient) Cancel(ctx context.Context, topic, channel string, r Reschedule) (*Rescheduled, error) {
	return d.change(ctx, topic, channel, "cancel", r)
}

// Advance has deferred messages delivered now.
func (d DeferredClient) Advance(ctx context.Context, topic, channel string, r Reschedule) (*Rescheduled, error) {
	return d.change(ctx, topic, channel, "advance", r)
}

func (d DeferredClient) change(ctx context.Context, topic, channel, verb string, r Reschedule) (*Rescheduled, error) {
	out := new(Rescheduled)
	return out, d.c.t.send(ctx, http.MethodPost, path("topics", topic, "channels", channel, "deferred", verb), r, out)
}

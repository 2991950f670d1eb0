package deferral

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Limits of a request.
const (
	// MaxPage is the maximum number of messages in a page.
	MaxPage = 1000
	// MaxNamed is the maximum number of messages that one request names.
	MaxNamed = 1000
	// atOnce is the maximum number of messages that are changed under one lock
	// of the channel.
	atOnce = 16 << 10
)

// Why is the reason for which a message is deferred.
type Why string

// The reasons.
const (
	Published Why = "published" // its publisher deferred it
	Requeued  Why = "requeued"  // a consumer requeued it with a delay
	Backoff   Why = "backoff"   // the channel's backoff defers it
)

// Message is a deferred message.
type Message struct {
	Offset   seq.Offset `json:"offset"`
	Due      time.Time  `json:"due"`
	Attempts uint16     `json:"attempts"`
	Why      Why        `json:"why"`
	Bytes    int        `json:"bytes"` // of its body; -1: it cannot be read
}

// Page is a part of the deferred messages, in the order in which they are due.
type Page struct {
	Messages []Message `json:"messages"`
	Total    int       `json:"total"` // in the window
}

// List returns deferred messages of a channel. It takes time proportional to their number,
// and locks the channel meanwhile.
func List(p *topic.Partition, c *topic.Channel, page channel.DeferredPage) Page {
	page.Max = min(max(page.Max, 0), MaxPage)
	var pending []channel.Pending
	var out Page
	c.Look(func(v channel.View) { pending, out.Total = v.Deferrals().List(page) })
	out.Messages = make([]Message, len(pending))
	for i, m := range pending {
		out.Messages[i] = Message{Offset: m.Offset, Due: m.Due, Attempts: m.Attempts, Why: whyOf(m), Bytes: -1}
	}
	measure(p, out.Messages)
	return out
}

func whyOf(m channel.Pending) Why {
	switch {
	case m.Backoff:
		return Backoff
	case m.Attempts > 0:
		return Requeued
	}
	return Published
}

// measure reads the sizes of messages, in log order.
func measure(p *topic.Partition, list []Message) {
	order := make([]int, len(list))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(list[a].Offset, list[b].Offset) })
	r := p.Log().NewReader()
	defer r.Release()
	for _, i := range order {
		b, err := r.Batch(list[i].Offset)
		if err != nil {
			continue
		}
		records := b.Records(list[i].Offset)
		if _, raw, ok := records.Next(); ok {
			if m, err := record.Decode(raw); err == nil {
				list[i].Bytes = len(m.Body)
			}
		}
	}
}

// Verb is an operation on deferred messages.
type Verb string

// The verbs.
const (
	Cancel  Verb = "cancel"  // they are finished without delivery
	Advance Verb = "advance" // they are delivered now
)

// ErrUnknownVerb is returned for an invalid Verb.
var ErrUnknownVerb = fate.Refuse("unknown change of deferred messages: want cancel or advance")

// Selection selects deferred messages: those at the offsets or, without offsets, those that
// are due in the window.
type Selection struct {
	Offsets []seq.Offset
	channel.Window
}

// Done is the result of a change.
type Done struct {
	Count  int          `json:"count"`
	Missed []seq.Offset `json:"missed,omitempty"` // named messages that were not deferred
}

// Apply changes deferred messages of a channel; with dry it only counts them. After an error, the
// changes made so far remain and are counted: another call continues with the rest.
func Apply(ctx context.Context, p *topic.Partition, c *topic.Channel, verb Verb, of Selection, dry bool) (d Done, err error) {
	act := channel.Operator.Cancel
	switch {
	case verb == Advance:
		act = channel.Operator.Advance
	case verb != Cancel:
		return d, fmt.Errorf("%w: %q", ErrUnknownVerb, verb)
	}
	offsets := of.Offsets
	if len(offsets) == 0 {
		c.Look(func(v channel.View) { offsets = v.Deferrals().In(of.Window) })
	}
	for some := range slices.Chunk(offsets, atOnce) {
		if err := ctx.Err(); err != nil {
			return d, fmt.Errorf("%s deferred messages: failed after %d: %w", verb, d.Count, context.Cause(ctx))
		}
		var done []seq.Offset
		if dry {
			c.Look(func(v channel.View) { done = deferredOf(v.Deferrals(), some) })
		} else if err := c.Operator().Change(func(s *channel.State) { done = act(s.Operator(), some) }); err != nil {
			return d, err
		}
		d.Count += len(done)
		if len(of.Offsets) > 0 {
			d.Missed = append(d.Missed, without(some, done)...)
		}
	}
	if dry || d.Count == 0 {
		return d, nil
	}
	return d, p.Flush(ctx)
}

// deferredOf returns those of the messages that are deferred.
func deferredOf(d channel.Deferrals, offsets []seq.Offset) (is []seq.Offset) {
	for _, o := range offsets {
		if _, ok := d.Until(o); ok {
			is = append(is, o)
		}
	}
	return is
}

// without returns the elements of all that are not in some, both without
// duplicates.
func without(all, some []seq.Offset) (rest []seq.Offset) {
	for _, o := range all {
		if !slices.Contains(some, o) {
			rest = append(rest, o)
		}
	}
	return rest
}

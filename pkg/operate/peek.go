package operate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/filter"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Limits of a Peek that chooses messages.
const (
	// maxFiltered is how many messages of a partition it visits.
	maxFiltered = api.MaxFiltered
	// filteredPage and filteredBytes bound the messages in memory at a time, besides the chosen
	// ones.
	filteredPage  = 1000
	filteredBytes = 1 << 20
)

// defaultPeek is the number of messages if none is given.
const defaultPeek = 10

// Bounds of one Peek: its messages, and the size of bodies after which one answer between nodes ends.
const (
	MaxPeek   = 10_000
	PeekBytes = 8 << 20
)

// PeekHere returns messages of the partitions that this node leads without consuming them,
// partition by partition. With a CorruptionError it returns those before the damaged
// range, which no replica holds intact.
func (o *Node) PeekHere(ctx context.Context, r Peek) ([]Peeked, error) {
	h := o.host.Lookup(r.Topic)
	if h == nil {
		return nil, failure.TopicNotFound
	}
	left := r.Max
	if left <= 0 {
		left = defaultPeek
	}
	left = min(left, MaxPeek)
	served := h.AllLed()
	if r.Partition >= 0 {
		lp := h.Led(r.Partition)
		if lp == nil {
			return nil, fmt.Errorf("%w: %s/%d", failure.PartitionNotFound, h.Name, r.Partition)
		}
		served = []*host.Led{lp}
	}
	peeked := []Peeked{}
	for _, lp := range served {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if r.Max = left - len(peeked); r.Max == 0 || r.Bytes < 0 {
			break
		}
		some, err := peek(ctx, lp, r, h.Numbering())
		if peeked = append(peeked, some...); err != nil {
			return peeked, unreadable(lp, err)
		}
		r.Bytes = bytesLeft(r.Bytes, some)
	}
	return peeked, nil
}

// unreadable reports damage as consumers do, and returns the error for one who peeks.
func unreadable(lp *host.Led, err error) error {
	switch d, is := errors.AsType[*commitlog.CorruptionError](err); {
	case is && lp.Damaged(d):
		return fmt.Errorf("%w: %s", failure.Unreadable, err.Error()) // the fate of which is not that of err
	case !is && fate.Of(err) == fate.Corrupt:
		lp.Replica.MarkDamaged(err) // logs the location
	}
	return err
}

// bytesLeft returns the byte bound for the rest of a Peek that has found some messages: negative
// when nothing may follow.
func bytesLeft(bound int, some []Peeked) int {
	if bound == 0 {
		return 0
	}
	for i := range some {
		bound -= len(some[i].Body) + len(some[i].Header)
	}
	if bound == 0 {
		return -1
	}
	return bound
}

func peek(ctx context.Context, lp *host.Led, r Peek, ids seq.Numbering) ([]Peeked, error) {
	var c *topic.Channel
	from := lp.Part.Log().Start()
	if r.Channel != "" {
		if c = lp.Part.Channel(r.Channel); c == nil {
			return nil, failure.ChannelNotFound
		}
		from = c.Floor()
	}
	if r.From != nil {
		from = *r.From
	}
	most := r.Bytes
	if most == 0 {
		most = math.MaxInt
	}
	chosen, err := r.choice(lp.Index, c)
	if err != nil {
		return nil, err
	}
	var seen []topic.Seen
	if chosen == nil {
		seen, err = lp.Part.Peek(c, from, r.Max, most)
	} else {
		seen, err = pick(ctx, lp.Part, c, from, Peek{Max: r.Max, Bytes: most}, chosen)
	}
	peeked := make([]Peeked, 0, len(seen))
	for i := range seen {
		s := &seen[i]
		peeked = append(peeked, Peeked{
			Partition: lp.Index, Offset: s.Offset, ID: ids.ID(seq.NewMessageID(lp.Index, s.Offset)), Timestamp: s.Timestamp,
			DeliverAt: deliverAt(s), Attempts: s.Attempts, State: peekState(c, s),
			TraceID: s.Message.TraceID, Header: s.Message.Header, Body: s.Message.Body,
			Key: s.Message.Key, Dedup: s.Message.Dedup, TTL: s.Message.TTL, CopyOf: copyOf(s.Message.Address, ids),
		})
	}
	return peeked, err
}

// copyOf returns the id of the message of which one with an address is a copy, or nil.
func copyOf(a *record.Address, ids seq.Numbering) *seq.WireID {
	if a == nil {
		return nil
	}
	return new(ids.ID(seq.NewMessageID(a.Partition, a.Offset)))
}

// deliverAt returns when a message's publisher wanted it delivered, by the clock that stamped it;
// the zero time: at once.
func deliverAt(s *topic.Seen) time.Time {
	if s.Message.Delay == 0 {
		return time.Time{}
	}
	return s.Timestamp.Add(s.Message.Delay)
}

func peekState(c *topic.Channel, s *topic.Seen) api.PeekState {
	switch {
	case c == nil:
		return api.PeekStored
	case s.State == channel.InFlight:
		return api.PeekInFlight
	case s.State == channel.Deferred, s.Attempts == 0 && s.Rest > 0:
		return api.PeekDeferred
	case s.State == channel.Exhausted:
		return api.PeekExhausted
	case s.State == channel.Finished:
		return api.PeekFinished
	}
	return api.PeekReady
}

// choice returns the filter for the messages of a partition and their state in a channel; nil: all are
// chosen.
func (r *Peek) choice(partition int, c *topic.Channel) (func(*topic.Seen) bool, error) {
	chosen, err := r.byContent(partition)
	if r.State == "" || err != nil {
		return chosen, err
	}
	return func(s *topic.Seen) bool { return peekState(c, s) == r.State && (chosen == nil || chosen(s)) }, nil
}

// byContent returns the filter for the messages of a partition; nil: all are chosen.
func (r *Peek) byContent(partition int) (func(*topic.Seen) bool, error) {
	var f *filter.Filter
	if r.Filter != "" {
		var err error
		if f, err = filter.Compile(r.Filter); err != nil {
			return nil, err
		}
	}
	switch {
	case r.Letters != nil:
		of := deadletter.Selection{Topic: r.Letters.Topic, Channel: r.Letters.Channel, Filter: f}
		return func(s *topic.Seen) bool {
			_, is := of.Has(s)
			return is
		}, nil
	case f == nil:
		return nil, nil
	}
	return func(s *topic.Seen) bool {
		m := &s.Message
		at := s.Timestamp
		if m.Address != nil {
			at = time.Unix(0, m.Address.Timestamp)
		}
		is, err := f.Match(&filter.Message{
			Header: m.Header, Key: m.Key, Tag: header.TagOf(m.Header), Partition: partition, Timestamp: at, Attempts: int(s.Attempts), Size: len(m.Body),
		})
		return is && err == nil
	}, nil
}

// pick returns chosen messages from an offset on, as Partition.Peek returns all.
func pick(ctx context.Context, p *topic.Partition, c *topic.Channel, from seq.Offset, bound Peek, chosen func(*topic.Seen) bool) (picked []topic.Seen, err error) {
	for looked := 0; looked < maxFiltered && ctx.Err() == nil; {
		page, err := p.Peek(c, from, filteredPage, filteredBytes)
		for i := range page {
			if !chosen(&page[i]) {
				continue
			}
			picked = append(picked, page[i])
			bound.Bytes -= len(page[i].Message.Body) + len(page[i].Message.Header)
			if len(picked) == bound.Max || bound.Bytes <= 0 {
				return picked, nil
			}
		}
		if len(page) == 0 || err != nil {
			return picked, err
		}
		looked += len(page)
		from = page[len(page)-1].Offset + 1
	}
	return picked, context.Cause(ctx)
}

package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// DefaultPeek is how many messages are peeked at where no number is given.
const DefaultPeek = 10

// MaxPeek bounds the messages of one Peek.
const MaxPeek = 10_000

// Peek returns messages without touching them, partition by partition.
func (n *shelf) Peek(ctx context.Context, r Peek) ([]Peeked, error) {
	h := n.lookup(r.Topic)
	if h == nil {
		return nil, ErrTopicNotFound
	}
	left := r.Max
	if left <= 0 {
		left = DefaultPeek
	}
	left = min(left, MaxPeek)
	served := h.led()
	if r.Partition >= 0 {
		lp := h.leds(r.Partition)
		if lp == nil {
			return nil, fmt.Errorf("%w: %s/%d", ErrPartitionNotFound, h.name, r.Partition)
		}
		served = []*ledPartition{lp}
	}
	peeked := []Peeked{}
	for _, lp := range served {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		some, err := lp.peek(r, left-len(peeked))
		if err != nil {
			return nil, err
		}
		peeked = append(peeked, some...)
	}
	return peeked, nil
}

func (lp *ledPartition) peek(r Peek, limit int) ([]Peeked, error) {
	var c *topic.Channel
	from := lp.part.Log().Start()
	if r.Channel != "" {
		if c = lp.part.Channel(r.Channel); c == nil {
			return nil, ErrChannelNotFound
		}
		from = c.Floor()
	}
	if r.From != nil {
		from = *r.From
	}
	seen, err := lp.part.Peek(c, from, limit)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	peeked := make([]Peeked, 0, len(seen))
	for i := range seen {
		s := &seen[i]
		peeked = append(peeked, Peeked{
			Partition: lp.index, Offset: s.Offset, ID: seq.NewMessageID(lp.index, s.Offset), Timestamp: s.Timestamp,
			DeliverAt: s.Message.DeliverAt, Attempts: s.Attempts, State: peekState(c, s, now),
			TraceID: s.Message.TraceID, Header: s.Message.Header, Body: s.Message.Body,
		})
	}
	return peeked, nil
}

func peekState(c *topic.Channel, s *topic.Seen, now time.Time) PeekState {
	switch {
	case c == nil:
		return PeekStored
	case s.State == channel.InFlight:
		return PeekInFlight
	case s.State == channel.Deferred, s.Attempts == 0 && s.Message.DeliverAt.After(now):
		return PeekDeferred
	case s.State == channel.Finished:
		return PeekFinished
	}
	return PeekReady
}

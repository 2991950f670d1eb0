package topic

import (
	"context"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/units"
)

// StartKind is the kind of position in a Start.
type StartKind uint8

// The kinds of start positions.
const (
	StartAnywhere   StartKind = iota // the channel's current position
	StartAtTime                      // the first message published at a time, in s since 1970
	StartAtPosition                  // the message at a byte position of the log
	StartAtMessage                   // the n-th message of the log, from 1
	StartAtEnd                       // after all messages

	startKinds
)

// Start is the requested start position of a channel, applied only for its first consumer.
type Start struct {
	Kind  StartKind
	Value int64 // meaning depends on the kind; not negative
}

// Valid reports whether a Start, possibly received from another node, is valid.
func (s Start) Valid() bool {
	if s.Kind == StartAtTime {
		_, err := units.FromSeconds(s.Value)
		return err == nil
	}
	return s.Kind < startKinds && s.Value >= 0
}

// in returns the offset in a log.
func (s Start) in(l *commitlog.Log) (seq.Offset, error) {
	switch s.Kind {
	case StartAtTime:
		at, err := units.FromSeconds(s.Value)
		if err != nil {
			return 0, err
		}
		return l.OffsetAt(at.UnixNano())
	case StartAtPosition:
		r := l.NewReader()
		defer r.Release()
		return r.OffsetAtPosition(s.Value)
	case StartAtMessage:
		return seq.Offset(max(s.Value-1, 0)), nil
	default:
		return l.CommittedEnd(), nil
	}
}

// Move moves a channel to the start position unless it already has a consumer. When it returns,
// every in-sync replica has the position.
func (s Start) Move(ctx context.Context, c *Channel) error {
	if s.Kind == StartAnywhere || len(c.Consumers()) > 0 {
		return nil
	}
	l := c.p.o.Log
	o, err := s.in(l)
	if err != nil {
		return err
	}
	o = min(max(o, l.Start()), l.CommittedEnd())
	err = c.Operator().Move(func(state *channel.State) {
		if len(c.consumers) == 0 {
			state.Operator().Seek(o)
		}
	})
	if err != nil {
		return err
	}
	return c.p.Flush(ctx)
}

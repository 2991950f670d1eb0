package topic

import (
	"errors"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Seen is a message that was looked at and not touched. Its slices are the
// caller's.
type Seen struct {
	Offset    seq.Offset
	Timestamp time.Time
	Message   Message
	State     channel.MessageState // Ready where there is no channel
	Attempts  uint16
	Rest      time.Duration // of its publisher's delay; 0: it is due
}

// Peek returns up to limit committed messages from an offset on, and none behind the
// one with which they have that many bytes. With a channel it leaves out what the channel
// has finished, and tells the others' state.
func (p *Partition) Peek(c *Channel, from seq.Offset, limit, bytes int) ([]Seen, error) {
	r := p.o.Log.NewReader()
	defer r.Release()
	now := p.o.Now()
	from = max(from, p.o.Log.Start())
	var seen []Seen
	for o := from; len(seen) < limit && bytes > 0 && o < p.o.Log.CommittedEnd(); {
		b, err := r.Batch(o)
		if err != nil {
			var below *commitlog.BelowStartError
			if errors.As(err, &below) && below.Start > o {
				o = below.Start
				continue
			}
			return seen, err
		}
		records := b.Records(o)
		for len(seen) < limit && bytes > 0 {
			at, raw, ok := records.Next()
			if !ok {
				break
			}
			s := Seen{Offset: at, Timestamp: time.Unix(0, b.Timestamp())}
			if c != nil {
				if s.State, s.Attempts = c.stateOf(at); s.State == channel.Finished {
					continue
				}
			}
			m, err := decodeRecord(append([]byte(nil), raw...))
			if err != nil {
				return seen, fmt.Errorf("offset %d: %w", at, err)
			}
			s.Message, s.Rest = m, p.rest(b, at, m.Delay, now)
			seen = append(seen, s)
			bytes -= len(m.Body) + len(m.Header)
		}
		o = b.End()
	}
	return seen, nil
}

func (c *Channel) stateOf(o seq.Offset) (channel.MessageState, uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.StateOf(o)
}

// PublishedAt returns when the message at an offset was published, and false
// when it is not there or cannot be read.
func (p *Partition) PublishedAt(o seq.Offset) (time.Time, bool) {
	if o < p.o.Log.Start() || o >= p.o.Log.CommittedEnd() {
		return time.Time{}, false
	}
	r := p.o.Log.NewReader()
	defer r.Release()
	b, err := r.Batch(o)
	if err != nil {
		return time.Time{}, false
	}
	return time.Unix(0, b.Timestamp()), true
}

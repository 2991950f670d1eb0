package topic

import (
	"errors"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Seen is a message that was read without consuming it. Its slices belong to the caller.
type Seen struct {
	Offset    seq.Offset
	Timestamp time.Time
	Message   Message
	State     channel.MessageState // Ready if there is no channel
	Attempts  uint16
	Rest      time.Duration // rest of its publisher's delay; 0: it is due
}

// Peek returns up to limit committed messages from an offset on, and stops after the one that
// exceeds the byte limit. With a channel it omits finished messages and returns the state of
// the others.
func (p *Partition) Peek(c *Channel, from seq.Offset, limit, bytes int) ([]Seen, error) {
	r := p.o.Log.NewReader()
	defer r.Release()
	now := p.o.Now()
	from = max(from, p.o.Log.Start())
	var seen []Seen
	for o := from; len(seen) < limit && bytes > 0; {
		if c != nil {
			c.Look(func(v channel.View) { o = v.NextUnfinished(o) })
		}
		if o >= p.o.Log.CommittedEnd() {
			break
		}
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
				c.Look(func(v channel.View) { s.State, s.Attempts = v.StateOf(at) })
				if s.State == channel.Finished {
					continue
				}
			}
			m, err := record.Decode(append([]byte(nil), raw...))
			if err != nil {
				return seen, fmt.Errorf("offset %d: %w", at, err)
			}
			if c != nil && m.Address != nil && !c.HasVersion(m.Address.Channel) {
				continue
			}
			s.Message, s.Rest = m, p.rest(b, at, m.Delay, now)
			if s.Rest > 0 && c != nil && advanced(c, at) {
				s.Rest = 0
			}
			seen = append(seen, s)
			bytes -= len(m.Body) + len(m.Header)
		}
		o = b.End()
	}
	return seen, nil
}

// publication is the publish time of the messages of a batch.
type publication struct {
	first, end seq.Offset
	at         time.Time
}

// OldestAt returns the publish time of a channel's first unfinished message, and false if there
// is none or it cannot be read. It reads a batch only after the one read last is finished:
// watching a channel that makes no progress reads nothing.
func (p *Partition) OldestAt(c *Channel) (time.Time, bool) {
	o, log := c.Floor(), p.o.Log
	if o < log.Start() || o >= log.CommittedEnd() {
		return time.Time{}, false
	}
	if was := c.oldest.Load(); was != nil && o >= was.first && o < was.end {
		return was.at, true
	}
	r := log.NewReader()
	defer r.Release()
	b, err := r.Batch(o)
	if err != nil {
		return time.Time{}, false
	}
	is := &publication{b.First(), b.End(), time.Unix(0, b.Timestamp())}
	c.oldest.Store(is)
	return is.at, true
}

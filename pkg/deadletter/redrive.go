package deadletter

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/filter"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// MaxBatch bounds how many dead letters one call redrives or purges.
const MaxBatch = 10_000

// errBusy is returned while another call processes dead letters of the same partition.
var errBusy = fate.Refuse("another command is redriving or purging dead letters of this partition; retry when it has finished")

// Letter is a dead letter.
type Letter struct {
	Origin Origin
	Seen   topic.Seen // the message in the dead-letter topic
}

// Processed is the result of a call.
type Processed struct {
	Letters int  // redriven or finished, or counted in a dry run
	More    bool // more can be processed
	Skipped int  // in flight to a consumer of the dead-letter topic, or deferred there
}

// Add adds another result.
func (s *Processed) Add(o Processed) {
	s.Letters += o.Letters
	s.More = s.More || o.More
	s.Skipped += o.Skipped
}

// Processor redrives or purges the dead letters in the Channel of one partition of a dead-letter
// topic, for one caller at a time. The zero value is ready for use. Many goroutines may call its
// methods.
type Processor struct{ busy sync.Mutex }

// Process calls bring for up to max dead letters of a channel, in order, and finishes those whose
// done was called without an error. If bring is nil it finishes all of them. It visits each letter
// once that is in the partition from its beginning to its end. With dry it only counts. It stops at
// the first letter that is refused.
func (d *Processor) Process(ctx context.Context, p *topic.Partition, origin Selection, max int, dry bool, bring func(l *Letter, done func(error))) (s Processed, err error) {
	c := p.Channel(Channel)
	if c == nil {
		return s, failure.ChannelNotFound
	}
	if !d.busy.TryLock() {
		return s, errBusy
	}
	defer d.busy.Unlock()
	for from := c.Floor(); ctx.Err() == nil; {
		letters, next, skipped, err := scan(p, c, from, origin, min(max-s.Letters+1, batchMessages))
		s.Skipped += skipped
		if err != nil {
			return s, err
		}
		if len(letters) > max-s.Letters {
			letters, s.More = letters[:max-s.Letters], true
		}
		if !dry {
			n, err := process(ctx, c, letters, bring)
			s.Letters += n
			if err != nil {
				return s, err
			}
		} else {
			s.Letters += len(letters)
		}
		if s.More || next <= from {
			break
		}
		from = next
	}
	if err := ctx.Err(); err != nil || dry || s.Letters == 0 {
		return s, err
	}
	return s, p.Flush(ctx)
}

// Selection chooses dead letters.
type Selection struct {
	Topic, Channel string
	Filter         *filter.Filter // chooses among them; nil: all
}

// Has reports whether a message is one of the chosen dead letters, and returns its origin.
func (s Selection) Has(seen *topic.Seen) (Origin, bool) {
	o, err := ReadOrigin(seen.Message.Header)
	if err != nil || o.Topic != s.Topic || o.Channel != s.Channel {
		return o, false // it comes from another channel, or a client published it
	}
	return o, s.Filter == nil || o.chosen(s.Filter, &seen.Message)
}

// scan returns up to max letters of a channel, beginning at from, and the offset at which to
// continue. At the end of the partition that offset is from.
func scan(p *topic.Partition, c *topic.Channel, from seq.Offset, of Selection, max int) (letters []Letter, next seq.Offset, skipped int, err error) {
	seen, err := p.Peek(c, from, batchMessages, batchBytes)
	if err != nil {
		return nil, from, 0, fmt.Errorf("read dead letters: %w", err)
	}
	next = from
	for i := range seen {
		if len(letters) == max {
			break
		}
		next = seen[i].Offset + 1
		o, meant := of.Has(&seen[i])
		if !meant {
			continue
		}
		if seen[i].State != channel.Ready {
			skipped++
			continue
		}
		letters = append(letters, Letter{o, seen[i]})
	}
	return letters, next, skipped, nil
}

// process redrives letters and finishes them, up to the first one that is refused.
func process(ctx context.Context, c *topic.Channel, letters []Letter, bring func(*Letter, func(error))) (n int, err error) {
	answers := make([]chan error, len(letters))
	for i := range letters {
		answers[i] = make(chan error, 1)
		if bring == nil {
			answers[i] <- nil
			continue
		}
		bring(&letters[i], func(err error) { answers[i] <- err })
	}
	var from, end seq.Offset // a run of letters that are to be finished
	finish := func() {
		if from < end {
			if e := c.Operator().Move(func(s *channel.State) { s.Operator().Skip(from, end) }); e != nil {
				err = errors.Join(err, e)
				return
			}
			n += int(end - from)
		}
		from = end
	}
	for i := range letters {
		if e := answerOf(ctx, answers[i]); e != nil {
			err = errors.Join(err, fmt.Errorf("dead letter of message %s: %w", letters[i].Origin.ID, e))
			continue
		}
		if o := letters[i].Seen.Offset; o != end {
			finish()
			from, end = o, o
		}
		end++
	}
	finish()
	return n, err
}

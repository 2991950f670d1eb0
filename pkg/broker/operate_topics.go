package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// changeArgs asks the leader of a partition to change something about its
// messages or a channel's place.
type changeArgs struct {
	Topic     string  `json:"topic"`
	Channel   string  `json:"channel,omitempty"` // "": the topic
	Partition int     `json:"partition"`
	Seek      *SeekTo `json:"seek,omitempty"` // nil: empty it
}

// changed is the answer: whether the channel was there.
type changed struct {
	Found bool `json:"found"`
}

var askEmpty = question[changeArgs, changed]{"empty", (*desk).changeHere}

var askSeek = question[changeArgs, changed]{"seek", (*desk).changeHere}

// changeHere carries out a change of a partition that this node leads.
func (o *desk) changeHere(ctx context.Context, a changeArgs) (changed, error) {
	part, err := o.ledPart(a.Topic, a.Partition)
	if err != nil {
		return changed{}, err
	}
	if a.Channel == "" {
		return changed{true}, part.Empty()
	}
	c := part.Channel(a.Channel)
	switch {
	case c == nil:
		return changed{}, nil
	case a.Seek == nil:
		err = c.Empty()
	default:
		var at seq.Offset
		if at, err = a.Seek.in(part); err == nil {
			err = c.Seek(at)
		}
	}
	if err != nil {
		return changed{}, fmt.Errorf("%s/%d: %w", a.Topic, a.Partition, err)
	}
	return changed{true}, part.Checkpoint()
}

// in returns the place in one partition.
func (to SeekTo) in(part *topic.Partition) (seq.Offset, error) {
	l := part.Log()
	switch {
	case to.Start:
		return l.Start(), nil
	case to.End:
		return l.CommittedEnd(), nil
	case to.Offset != nil:
		return *to.Offset, nil
	}
	return l.OffsetAt(to.Time.UnixNano())
}

// change carries out a change on every partition of a topic, at its leader, and
// says whether any had the channel.
func (o *operator) change(ctx context.Context, q question[changeArgs, changed], a changeArgs) (found bool, err error) {
	t, err := o.d.Topic(a.Topic)
	if err != nil {
		return false, err
	}
	var mu sync.Mutex // guards found, errs
	var errs []error
	numbers := make([]int, len(t.Partitions))
	for i := range numbers {
		numbers[i] = i
	}
	together(numbers, func(i int) {
		one := a
		one.Partition = i
		r, err := atLeader(ctx, &o.desk, q, a.Topic, i, one)
		mu.Lock()
		defer mu.Unlock()
		found = found || r.Found
		if err != nil {
			errs = append(errs, err)
		}
	})
	return found, errors.Join(errs...)
}

func (o *operator) changeChannel(ctx context.Context, q question[changeArgs, changed], a changeArgs) error {
	found, err := o.change(ctx, q, a)
	if err == nil && !found {
		return ErrChannelNotFound
	}
	return err
}

// EmptyTopic drops the messages that no channel has got yet, in every partition.
func (b *Broker) EmptyTopic(ctx context.Context, name string) error {
	_, err := b.operator.change(ctx, askEmpty, changeArgs{Topic: name})
	return err
}

// EmptyChannel drops all that a channel has, in every partition: waiting,
// deferred and in flight.
func (b *Broker) EmptyChannel(ctx context.Context, name, channel string) error {
	return b.operator.changeChannel(ctx, askEmpty, changeArgs{Topic: name, Channel: channel})
}

// SeekChannel moves a channel in every partition of its topic.
func (b *Broker) SeekChannel(ctx context.Context, name, channel string, to SeekTo) error {
	return b.operator.changeChannel(ctx, askSeek, changeArgs{Topic: name, Channel: channel, Seek: &to})
}

// peekBytes is how much of bodies one answer between nodes carries, with one
// message at the least.
const peekBytes = 8 << 20

// peekedPart is a part of what was asked for.
type peekedPart struct {
	Messages []Peeked `json:"messages"`
	More     bool     `json:"more"` // it was cut at peekBytes
}

var askPeek = question[Peek, peekedPart]{"peek", func(o *desk, ctx context.Context, p Peek) (peekedPart, error) {
	seen, err := o.d.Peek(ctx, p)
	if err != nil {
		return peekedPart{}, err
	}
	bytes := 0
	for i := range seen {
		bytes += len(seen[i].Body) + len(seen[i].Header)
		if bytes > peekBytes && i > 0 {
			return peekedPart{seen[:i], true}, nil
		}
	}
	return peekedPart{seen, false}, nil
}}

// Peek returns messages without touching them, partition by partition, from the
// leader of each. A partition that has none just now is passed over, unless it
// is the one that is asked for.
func (b *Broker) Peek(ctx context.Context, r Peek) ([]Peeked, error) {
	t, err := b.Topic(r.Topic)
	if err != nil {
		return nil, err
	}
	if r.Max <= 0 {
		r.Max = DefaultPeek
	}
	r.Max = min(r.Max, MaxPeek)
	if r.Partition >= 0 {
		return b.operator.peek(ctx, r)
	}
	peeked := []Peeked{}
	missing := 0
	for i := range t.Partitions {
		if t.Partitions[i].Leader == "" || len(peeked) >= r.Max {
			continue
		}
		one := r
		one.Partition, one.Max = i, r.Max-len(peeked)
		some, err := b.operator.peek(ctx, one)
		if errors.Is(err, ErrChannelNotFound) {
			missing++ // an ephemeral one need not be everywhere
			continue
		}
		if err != nil {
			return nil, err
		}
		peeked = append(peeked, some...)
	}
	if missing > 0 && missing == len(t.Partitions) {
		return nil, ErrChannelNotFound
	}
	return peeked, nil
}

// peek asks for messages of one partition until all are there.
func (o *operator) peek(ctx context.Context, r Peek) ([]Peeked, error) {
	all := []Peeked{}
	for {
		part, err := atLeader(ctx, &o.desk, askPeek, r.Topic, r.Partition, r)
		if err != nil {
			return nil, err
		}
		all = append(all, part.Messages...)
		r.Max -= len(part.Messages)
		if !part.More || r.Max <= 0 || len(part.Messages) == 0 {
			return all, nil
		}
		next := part.Messages[len(part.Messages)-1].Offset + 1
		r.From = &next
	}
}

// elsewhere says whether a request may find what it needs at another node, or
// at this one a little later: nothing was done.
func elsewhere(err error) bool {
	return errors.Is(err, coord.ErrNotLeading) || errors.Is(err, ErrUnreachable)
}

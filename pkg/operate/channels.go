package operate

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// changeVerb is a change of a partition's messages, or of a channel there.
type changeVerb string

// The verbs. Channel verbs other than empty and seek are for ephemeral channels, which the
// metadata does not contain.
const (
	verbEmpty  changeVerb = "empty"
	verbSeek   changeVerb = "seek"
	verbPause  changeVerb = "pause"
	verbResume changeVerb = "resume"
	verbDelete changeVerb = "delete"
)

// changeArgs asks the leader of a partition to change its messages or a channel there.
type changeArgs struct {
	Verb      changeVerb `json:"verb"`
	Topic     string     `json:"topic"`
	Channel   string     `json:"channel,omitempty"` // "": the topic
	Partition int        `json:"partition"`
	Seek      *SeekTo    `json:"seek,omitempty"` // of verbSeek
}

// changed is the answer: whether the channel existed.
type changed struct {
	Found bool `json:"found"`
}

var askChange = question[changeArgs, changed]{"change", (*Node).changeHere}

// changeHere carries out a change of a partition that this node leads, and returns once every
// in-sync replica has it.
func (o *Node) changeHere(ctx context.Context, a changeArgs) (changed, error) {
	part, err := o.ledPart(a.Topic, a.Partition)
	if err != nil {
		return changed{}, err
	}
	if a.Channel == "" && a.Verb == verbEmpty {
		return changed{true}, errors.Join(part.Empty(), part.Flush(ctx))
	}
	c := part.Channel(a.Channel)
	if c == nil {
		return changed{}, nil
	}
	if err := a.on(part, c); err != nil {
		return changed{}, fmt.Errorf("%s/%d: %w", a.Topic, a.Partition, err)
	}
	return changed{true}, part.Flush(ctx)
}

// on applies the change to a channel.
func (a *changeArgs) on(part *topic.Partition, c *topic.Channel) error {
	switch a.Verb {
	case verbEmpty:
		return c.Empty()
	case verbSeek:
		if a.Seek == nil {
			break
		}
		at, err := a.Seek.in(part)
		if err != nil {
			return err
		}
		return c.Seek(at)
	case verbPause, verbResume:
		c.Configure(topic.ChannelOptions{Paused: a.Verb == verbPause})
		return nil
	case verbDelete:
		return part.RemoveChannel(a.Channel)
	}
	return fate.Mark(fmt.Errorf("unknown change %q", a.Verb), fate.Refused)
}

// in returns the target offset in one partition.
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

// change carries out a change on every partition of a topic, at its leader, and reports whether any
// had the channel.
func (o *Contents) change(ctx context.Context, a changeArgs) (found bool, err error) {
	t, err := o.node.topics.Topic(a.Topic)
	if err != nil {
		return false, err
	}
	return everywhere(t, func(i int) (bool, error) {
		one := a
		one.Partition = i
		r, err := atLeader(ctx, o.node, askChange, a.Topic, i, one)
		return r.Found, err
	})
}

// everywhere calls f for each partition of a topic, and reports whether any has the requested
// object.
func everywhere(t *meta.Topic, f func(i int) (found bool, err error)) (found bool, err error) {
	var any atomic.Bool
	err = fan.Join(len(t.Partitions), askTogether, func(i int) error {
		found, err := f(i)
		if found {
			any.Store(true)
		}
		return err
	})
	return any.Load(), err
}

func (o *Contents) changeChannel(ctx context.Context, a changeArgs) error {
	found, err := o.change(ctx, a)
	if err == nil && !found {
		return failure.ChannelNotFound
	}
	return err
}

// EmptyTopic drops the messages that no channel has received yet, in every partition.
func (o *Contents) EmptyTopic(ctx context.Context, name string) error {
	_, err := o.change(ctx, changeArgs{Verb: verbEmpty, Topic: name})
	return err
}

// PauseChannel stops or resumes delivery to a channel's consumers.
func (o *Contents) PauseChannel(ctx context.Context, name, channel string, paused bool) error {
	if !meta.IsEphemeral(channel) {
		return o.node.topics.Change(ctx, name, meta.AlterChannel{Topic: name, Channel: channel, Paused: &paused})
	}
	verb := verbResume
	if paused {
		verb = verbPause
	}
	return o.changeChannel(ctx, changeArgs{Verb: verb, Topic: name, Channel: channel})
}

// DeleteChannel deletes a channel and disconnects its consumers. Deleting the last channel of
// an ephemeral topic deletes the topic.
func (o *Contents) DeleteChannel(ctx context.Context, name, channel string) error {
	var err error
	if meta.IsEphemeral(channel) {
		err = o.changeChannel(ctx, changeArgs{Verb: verbDelete, Topic: name, Channel: channel})
	} else {
		if err = saveDeleted(ctx, o.node, name, channel); err == nil {
			err = o.node.topics.Change(ctx, name, meta.DeleteChannel{Topic: name, Channel: channel})
		}
	}
	if err != nil || !meta.IsEphemeral(name) {
		return err
	}
	for _, t := range o.ClusterStats(ctx, name, "", false) {
		if len(t.Channels) > 0 || len(t.MissingNodes) > 0 {
			return nil // it has channels, or may have some
		}
	}
	err = o.node.topics.DeleteTopic(ctx, name)
	if errors.Is(err, failure.TopicNotFound) {
		return nil
	}
	return err
}

// PeekBytes is the size of bodies after which one answer between nodes ends.
const PeekBytes = 8 << 20

// peekedPart is a part of a Peek's result.
type peekedPart struct {
	Messages []Peeked `json:"messages"`
	More     bool     `json:"more"` // it ends because of PeekBytes
}

var askPeek = question[Peek, peekedPart]{"peek", func(o *Node, ctx context.Context, p Peek) (peekedPart, error) {
	if p.Bytes <= 0 || p.Bytes > PeekBytes {
		p.Bytes = PeekBytes
	}
	seen, err := o.PeekHere(ctx, p)
	if err != nil {
		return peekedPart{}, err
	}
	return peekedPart{seen, bytesLeft(p.Bytes, seen) < 0}, nil
}}

// Peek returns messages without consuming them, partition by partition, from each leader. A
// partition without a leader is skipped unless it was requested explicitly.
func (o *Contents) Peek(ctx context.Context, r Peek) ([]Peeked, error) {
	t, err := o.node.topics.Topic(r.Topic)
	if err != nil {
		return nil, err
	}
	if r.Max <= 0 {
		r.Max = defaultPeek
	}
	r.Max = min(r.Max, MaxPeek)
	if r.Partition >= 0 {
		return o.peek(ctx, r)
	}
	peeked := []Peeked{}
	missing := 0
	for i := range t.Partitions {
		if t.Partitions[i].Leader == "" || len(peeked) >= r.Max || r.Bytes < 0 {
			continue
		}
		one := r
		one.Partition, one.Max = i, r.Max-len(peeked)
		some, err := o.peek(ctx, one)
		if errors.Is(err, failure.ChannelNotFound) {
			missing++ // an ephemeral channel need not be in every partition
			continue
		}
		if err != nil {
			return nil, err
		}
		peeked = append(peeked, some...)
		r.Bytes = bytesLeft(r.Bytes, some)
	}
	if missing > 0 && missing == len(t.Partitions) {
		return nil, failure.ChannelNotFound
	}
	return peeked, nil
}

// peek requests messages of one partition until all have been received.
func (o *Contents) peek(ctx context.Context, r Peek) ([]Peeked, error) {
	all := []Peeked{}
	for {
		part, err := atLeader(ctx, o.node, askPeek, r.Topic, r.Partition, r)
		if err != nil {
			return nil, err
		}
		all = append(all, part.Messages...)
		r.Max -= len(part.Messages)
		if r.Bytes = bytesLeft(r.Bytes, part.Messages); !part.More || r.Bytes < 0 || r.Max <= 0 || len(part.Messages) == 0 {
			return all, nil
		}
		r.From = new(part.Messages[len(part.Messages)-1].Offset + 1)
	}
}

// elsewhere reports whether a request may succeed at another node, or at the same one a little
// later: a leader may have applied less metadata than this node. Nothing was changed.
func elsewhere(err error) bool {
	for _, e := range []error{failure.NotLeading, failure.Unreachable, failure.TopicNotFound, failure.PartitionNotFound, failure.StaleVersion} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

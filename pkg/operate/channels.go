package operate

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

var askEmpty = question[partitionAt, forward.Nothing]{"empty", func(o *Node, ctx context.Context, a partitionAt) (forward.Nothing, error) {
	part, err := o.ledPart(a.Topic, a.Partition)
	if err != nil {
		return forward.Nothing{}, err
	}
	return forward.Nothing{}, errors.Join(part.Empty(), part.Flush(ctx))
}}

// changeVerb is a change of a channel.
type changeVerb string

const (
	verbSeek   changeVerb = "seek"
	verbPause  changeVerb = "pause"
	verbResume changeVerb = "resume"
	verbDelete changeVerb = "delete"
)

// changeArgs asks the leader of a partition to change a channel there.
type changeArgs struct {
	channelAt
	Verb changeVerb `json:"verb"`
	Seek *SeekTo    `json:"seek,omitempty"` // of verbSeek
}

// askChange is answered once every in-sync replica has the change.
var askChange = question[changeArgs, forward.Nothing]{"change", func(o *Node, ctx context.Context, a changeArgs) (forward.Nothing, error) {
	part, c, err := a.here(o)
	if err != nil {
		return forward.Nothing{}, err
	}
	if err := a.on(part, c); err != nil {
		return forward.Nothing{}, failure.About(fmt.Sprintf("%s/%d", a.Topic, a.Partition), err)
	}
	return forward.Nothing{}, part.Flush(ctx)
}}

// on applies the change to a channel.
func (a *changeArgs) on(part *topic.Partition, c *topic.Channel) error {
	switch a.Verb {
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

// everywhere calls f for partitions of a topic, a few at a time. A channel need not be in each of them,
// but is not found if it is in none.
func everywhere(partitions []int, f func(i int) error) error {
	var missing atomic.Int64
	err := fan.Join(len(partitions), askTogether, func(i int) error {
		err := f(partitions[i])
		if errors.Is(err, failure.ChannelNotFound) {
			missing.Add(1)
			return nil
		}
		return err
	})
	if n := int(missing.Load()); err == nil && n > 0 && n == len(partitions) {
		return failure.ChannelNotFound
	}
	return err
}

// tally counts in how many partitions of a topic a change was made, or may have been.
type tally struct{ made, unsure atomic.Int64 }

// note counts the outcome of a change in one partition, and returns it.
func (c *tally) note(err error) error {
	switch {
	case err == nil:
		c.made.Add(1)
	case fate.Of(err) != fate.Refused:
		c.unsure.Add(1)
	}
	return err
}

// outcome returns the error of a change of several partitions, the errors of which are joined in err. If some of
// them are, or may be, changed, that of another one does not describe the whole: it may say that nothing was
// changed.
func (c *tally) outcome(partitions int, err error) error {
	made, unsure := c.made.Load(), c.unsure.Load()
	if err == nil || made+unsure == 0 || partitions == 1 {
		return err
	}
	text := fmt.Sprintf("changed in %d of %d partitions", made, partitions)
	if unsure > 0 {
		text += fmt.Sprintf(", perhaps in %d more", unsure)
	}
	return fate.Mark(fmt.Errorf("%s: %v", text, err), fate.Uncertain) //nolint:errorlint // the code of err says that one partition refused
}

// changeEverywhere is everywhere for a change.
func changeEverywhere(partitions []int, f func(i int) error) error {
	var c tally
	return c.outcome(len(partitions), everywhere(partitions, func(i int) error { return c.note(f(i)) }))
}

// partitionsOf returns the numbers of a topic's partitions.
func partitionsOf(t *meta.Topic) []int {
	all := make([]int, len(t.Partitions))
	for i := range all {
		all[i] = i
	}
	return all
}

func (o *Contents) changeChannel(ctx context.Context, name, channel string, verb changeVerb) error {
	t, err := o.node.topics.Topic(name)
	if err != nil {
		return err
	}
	return changeEverywhere(partitionsOf(t), func(i int) error {
		_, err := atLeader(ctx, o.node, askChange, name, i, changeArgs{channelAt: channelAt{name, channel, i}, Verb: verb})
		return err
	})
}

// EmptyTopic drops the messages that no channel has received yet, in every partition.
func (o *Contents) EmptyTopic(ctx context.Context, name string) error {
	t, err := o.node.topics.Topic(name)
	if err != nil {
		return err
	}
	return changeEverywhere(partitionsOf(t), func(i int) error {
		_, err := atLeader(ctx, o.node, askEmpty, name, i, partitionAt{name, i})
		return err
	})
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
	return o.changeChannel(ctx, name, channel, verb)
}

// DeleteChannel deletes a channel and disconnects its consumers. Deleting the last channel of
// an ephemeral topic deletes the topic.
func (o *Contents) DeleteChannel(ctx context.Context, name, channel string) error {
	var err error
	if meta.IsEphemeral(channel) {
		err = o.changeChannel(ctx, name, channel, verbDelete)
	} else {
		var version meta.Incarnation
		if version, err = saveDeleted(ctx, o.node, name, channel); err == nil {
			err = o.node.topics.Change(ctx, name, meta.DeleteChannel{Topic: name, Channel: channel, Version: version})
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

// peekedPart is a part of a Peek's result.
type peekedPart struct {
	Messages []Peeked                   `json:"messages"`
	More     bool                       `json:"more"`           // it ends because of PeekBytes
	Lost     *commitlog.CorruptionError `json:"lost,omitempty"` // it ends because of a range that no replica holds intact
}

var askPeek = question[Peek, peekedPart]{"peek", func(o *Node, ctx context.Context, p Peek) (peekedPart, error) {
	if p.Bytes <= 0 || p.Bytes > PeekBytes {
		p.Bytes = PeekBytes
	}
	seen, err := o.PeekHere(ctx, p)
	lost, is := errors.AsType[*commitlog.CorruptionError](err)
	if err != nil && !is {
		return peekedPart{}, err
	}
	return peekedPart{seen, bytesLeft(p.Bytes, seen) < 0, lost}, nil
}}

// Peek returns messages without consuming them, partition by partition, from each leader. A
// partition without a leader is skipped unless it was requested explicitly. It fails with a CorruptionError if they would
// begin in a damaged range that no replica holds intact.
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
		some, err := o.peek(ctx, r)
		if _, lost := errors.AsType[*commitlog.CorruptionError](err); lost && r.From != nil && len(some) > 0 {
			return some, nil // the next request begins in the damaged range
		}
		return some, err
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

// peek requests messages of one partition until all have been received, or those before a damaged
// range.
func (o *Contents) peek(ctx context.Context, r Peek) ([]Peeked, error) {
	all := []Peeked{}
	for {
		part, err := readAtLeader(ctx, o.node, askPeek, r.Topic, r.Partition, r)
		if err != nil {
			return nil, err
		}
		if all = append(all, part.Messages...); part.Lost != nil {
			return all, part.Lost
		}
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

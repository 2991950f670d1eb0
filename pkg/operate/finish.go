package operate

import (
	"context"
	"fmt"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// finishArgs names a message and a channel.
type finishArgs struct {
	Topic     string     `json:"topic"`
	Channel   string     `json:"channel"`
	Partition int        `json:"partition"`
	Offset    seq.Offset `json:"offset"`
}

// finished is the result of finishArgs.
type finished struct {
	Channel bool          `json:"channel"` // the channel exists
	Message bool          `json:"message"` // the message exists
	Was     api.PeekState `json:"was"`
}

var askFinish = question[finishArgs, finished]{"finish", func(o *Node, ctx context.Context, a finishArgs) (finished, error) {
	part, err := o.ledPart(a.Topic, a.Partition)
	if err != nil {
		return finished{}, err
	}
	c := part.Channel(a.Channel)
	if c == nil {
		return finished{}, nil
	}
	if log := part.Log(); a.Offset < log.Start() || a.Offset >= log.CommittedEnd() {
		return finished{Channel: true}, nil
	}
	var was channel.MessageState
	if err := topic.Move(c, func(s *channel.State) { was = channel.FinishAny(s, a.Offset) }); err != nil {
		return finished{Channel: true}, err
	}
	if was != channel.Finished {
		topic.EndedBy(c, a.Offset, "an operator")
	}
	return finished{true, true, stateWords[was]}, part.Flush(ctx)
}}

// stateWords are the names of a message's states.
var stateWords = map[channel.MessageState]api.PeekState{
	channel.Ready: api.PeekReady, channel.InFlight: api.PeekInFlight, channel.Deferred: api.PeekDeferred, channel.Finished: api.PeekFinished,
}

// FinishMessage finishes a message in a channel, whatever its state, and returns the previous
// state. The answer of a consumer that has it in flight fails. All in-sync replicas know when
// it returns.
func (o *Contents) FinishMessage(ctx context.Context, name, channel string, partition int, offset seq.Offset) (api.PeekState, error) {
	r, err := atLeader(ctx, o.node, askFinish, name, partition, finishArgs{name, channel, partition, offset})
	switch {
	case err != nil:
		return "", err
	case !r.Channel:
		return "", failure.ChannelNotFound
	case !r.Message:
		return "", fmt.Errorf("%s/%d offset %d: %w", name, partition, offset, failure.MessageNotFound)
	}
	return r.Was, nil
}

// SkipMessages finishes the messages of [from, end) in a channel that are not in flight. This
// node must lead the partition. Other replicas learn of it with the next checkpoint.
func (o *Contents) SkipMessages(name, of string, partition int, from, end seq.Offset) error {
	part, err := o.node.ledPart(name, partition)
	if err != nil {
		return err
	}
	c := part.Channel(of)
	if c == nil {
		return failure.ChannelNotFound
	}
	end = min(end, part.Log().CommittedEnd())
	return topic.Move(c, func(s *channel.State) { s.Skip(from, end) })
}

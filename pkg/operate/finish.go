package operate

import (
	"context"
	"fmt"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
)

// finishArgs asks the leader of a partition to finish a message.
type finishArgs struct {
	channelAt
	Offset seq.Offset `json:"offset"`
}

// askFinish is answered with the state that the message was in.
var askFinish = question[finishArgs, api.PeekState]{"finish", func(o *Node, ctx context.Context, a finishArgs) (api.PeekState, error) {
	part, c, err := a.here(o)
	if err != nil {
		return "", err
	}
	if log := part.Log(); a.Offset < log.Start() || a.Offset >= log.CommittedEnd() {
		return "", fmt.Errorf("%s/%d offset %d: %w", a.Topic, a.Partition, a.Offset, failure.MessageNotFound)
	}
	was, err := c.Operator().Finish(a.Offset)
	if err != nil {
		return "", err
	}
	return stateWords[was], part.Flush(ctx)
}}

// stateWords are the names of a message's states.
var stateWords = map[channel.MessageState]api.PeekState{
	channel.Ready: api.PeekReady, channel.InFlight: api.PeekInFlight, channel.Deferred: api.PeekDeferred, channel.Finished: api.PeekFinished,
}

// FinishMessage finishes a message in a channel, whatever its state, and returns the previous
// state. The answer of a consumer that has it in flight fails. All in-sync replicas know when
// it returns.
func (o *Contents) FinishMessage(ctx context.Context, name, channel string, partition int, offset seq.Offset) (api.PeekState, error) {
	return atLeader(ctx, o.node, askFinish, name, partition, finishArgs{channelAt{name, channel, partition}, offset})
}

// SkipMessages finishes the messages of [from, end) in a channel that are not in flight. This
// node must lead the partition. Other replicas learn of it with the next checkpoint.
func (o *Contents) SkipMessages(name, of string, partition int, from, end seq.Offset) error {
	part, c, err := channelAt{name, of, partition}.here(o.node)
	if err != nil {
		return err
	}
	end = min(end, part.Log().CommittedEnd())
	return c.Operator().Move(func(s *channel.State) { s.Operator().Skip(from, end) })
}

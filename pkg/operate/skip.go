package operate

import (
	"fmt"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// SkipMessages finishes the messages of [from, end) in a channel that are not in flight. This
// node must lead the partition. Other replicas learn of it with the next checkpoint.
func (o *Contents) SkipMessages(name, of string, partition int, from, end seq.Offset) error {
	h := o.node.host.Lookup(name)
	if h == nil {
		return failure.TopicNotFound
	}
	lp := h.Led(partition)
	if lp == nil {
		return fmt.Errorf("%s/%d: %w", name, partition, failure.NotLeading)
	}
	c := lp.Part.Channel(of)
	if c == nil {
		return failure.ChannelNotFound
	}
	end = min(end, lp.Part.Log().CommittedEnd())
	return topic.Move(c, func(s *channel.State) { s.Skip(from, end) })
}

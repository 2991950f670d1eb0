package broker

import (
	"fmt"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/seq"
)

// SkipMessages finishes the messages of [from, end) in a channel, as far as they are
// not in flight, as if consumers had. This node must lead the partition. Nobody else
// is told before the next checkpoint.
func (n *shelf) SkipMessages(topic, channel string, partition int, from, end seq.Offset) error {
	h := n.lookup(topic)
	if h == nil {
		return ErrTopicNotFound
	}
	lp := h.leds(partition)
	if lp == nil {
		return fmt.Errorf("%s/%d: %w", topic, partition, coord.ErrNotLeading)
	}
	c := lp.part.Channel(channel)
	if c == nil {
		return ErrChannelNotFound
	}
	return c.Skip(from, end)
}

package operate

import (
	"fmt"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// SkipMessages finishes the messages of [from, end) in a channel, as far as they are
// not in flight, as if consumers had. This node must lead the partition. Nobody else
// is told before the next checkpoint.
func (o *Contents) SkipMessages(topic, channel string, partition int, from, end seq.Offset) error {
	h := o.node.host.Lookup(topic)
	if h == nil {
		return meta.ErrTopicNotFound
	}
	lp := h.Led(partition)
	if lp == nil {
		return fmt.Errorf("%s/%d: %w", topic, partition, coord.ErrNotLeading)
	}
	c := lp.Part.Channel(channel)
	if c == nil {
		return meta.ErrChannelNotFound
	}
	return c.Skip(from, end)
}

package topic

import (
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/seq"
)

// FinishAny finishes a committed message in a channel, also one that a consumer has, and
// returns where it was. When it returns, that is on this node's disk; Partition.Flush
// waits for the others. It returns false where the log has no such message.
func FinishAny(c *Channel, o seq.Offset) (was channel.MessageState, found bool, err error) {
	if log := c.p.o.Log; o < log.Start() || o >= log.CommittedEnd() {
		return was, false, nil
	}
	err = c.move(func(s *channel.State) { was = channel.FinishAny(s, o) })
	return was, true, err
}

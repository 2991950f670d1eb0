package topic

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/filter"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/seq"
)

// errTooManyTags refuses a consumer that asks for a further tag.
var errTooManyTags = fate.Refuse("consumers of the channel ask for too many tags")

// retagLocked updates the requested tags when a consumer with a tag has joined or left. Messages
// that were sorted by the previous tags are for all consumers again, which are woken.
func retagLocked(c *Channel) {
	var asked channel.Tags
	for _, k := range c.consumers {
		if k.o.Tag != "" && !slices.Contains(asked, k.o.Tag) {
			asked = append(asked, k.o.Tag)
		}
	}
	c.tags = asked
	c.state.Sorting().Merge()
	for _, k := range c.waiting.pop(everyone, nil) {
		k.wake()
	}
	c.waiters.Store(c.waiting.len())
}

// misplaced is a message taken by a consumer of another lot.
type misplaced struct {
	offset seq.Offset
	lot    channel.Lot
}

// lotOf returns the lot of the message that was read last, and whether it is the consumer's.
func lotOf(k *Consumer, d *Delivery) (lot channel.Lot, ours bool) {
	if len(k.tags) == 0 {
		return 0, true
	}
	lot = k.tags.Of(header.TagOf(d.Header))
	return lot, lot == k.tags.Of(k.o.Tag)
}

// sortLocked sorts messages into the lots of other consumers, and returns those of them that wait.
func sortLocked(k *Consumer, others []misplaced) []*Consumer {
	c := k.ch
	if !slices.Equal(c.tags, k.tags) { // the requested tags changed meanwhile
		for _, m := range slices.Backward(others) {
			c.state.UndoTake(m.offset)
		}
		return c.waiting.pop(everyone, nil)
	}
	var woken []*Consumer
	for _, m := range others {
		c.state.Sorting().Sort(m.offset, m.lot)
	}
	for _, w := range slices.Clone(c.waiting.list) {
		lot := c.tags.Of(w.o.Tag)
		if slices.ContainsFunc(others, func(m misplaced) bool { return m.lot == lot }) {
			c.waiting.remove(w)
			woken = append(woken, w)
		}
	}
	return woken
}

// selected reports whether the channel's filter chooses the message that was read last. The filter
// does not apply to messages that an operator sends only to this channel.
func selected(k *Consumer, d *Delivery) bool {
	if k.message.Address != nil && (!k.message.Address.Moves || k.message.Address.Chosen) {
		return true
	}
	return k.ch.Selection.Chooses(&filter.Message{
		Header: d.Header, Key: d.Key, Partition: d.ID.Partition(), Timestamp: time.Unix(0, d.Timestamp), Attempts: int(d.Attempts), Size: len(d.Body),
	}, header.TagOf)
}

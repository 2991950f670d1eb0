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

// errTooManyTags refuses a consumer that asks for one more.
var errTooManyTags = fate.Refuse("consumers of the channel ask for too many tags")

// retagLocked notes which tags consumers ask for, when one with a tag has come or gone. What was
// sorted by those before is for all again, who are woken.
func retagLocked(c *Channel) {
	var asked channel.Tags
	for _, k := range c.consumers {
		if k.o.Tag != "" && !slices.Contains(asked, k.o.Tag) {
			asked = append(asked, k.o.Tag)
		}
	}
	c.tags = asked
	channel.SortingOf(c.state).Merge()
	for _, k := range c.waiting.pop(everyone, nil) {
		k.wake()
	}
	c.waiters.Store(c.waiting.len())
}

// misplaced is a message that was taken by a consumer whose lot it is not for.
type misplaced struct {
	offset seq.Offset
	lot    channel.Lot
}

// lotOf returns whose the message is that was read last, and whether it is the consumer's.
func lotOf(k *Consumer, d *Delivery) (lot channel.Lot, ours bool) {
	if len(k.tags) == 0 {
		return 0, true
	}
	lot = k.tags.Of(header.TagOf(d.Header))
	return lot, lot == k.tags.Of(k.o.Tag)
}

// sortLocked has messages wait for the consumers whose they are, and returns those that wait
// for them.
func sortLocked(k *Consumer, others []misplaced) []*Consumer {
	c := k.ch
	if !slices.Equal(c.tags, k.tags) { // others ask by now
		for _, m := range slices.Backward(others) {
			c.state.GiveBack(m.offset)
		}
		return c.waiting.pop(everyone, nil)
	}
	var woken []*Consumer
	for _, m := range others {
		channel.SortingOf(c.state).Sort(m.offset, m.lot)
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

// selected reports whether the channel's filter chooses the message that was read last. It is not
// asked about what an operator sends to this channel alone.
func selected(k *Consumer, d *Delivery) bool {
	if k.address != nil && !k.address.Moves {
		return true
	}
	return k.ch.Selection.Chooses(&filter.Message{
		Header: d.Header, Key: d.Key, Partition: d.ID.Partition(), Timestamp: time.Unix(0, d.Timestamp), Attempts: int(d.Attempts), Size: len(d.Body),
	}, header.TagOf)
}

package broker

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/route"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Publish publishes messages to one partition: see the type Publish. It may wait
// for a topic to be created or for room, but never for an earlier publish.
//
// Where another node leads the partition, the messages go there, and the answer
// is that node's. What one caller publishes to one partition, one after the
// other, is appended in that order, wherever the leader is meanwhile: while the
// leadership moves, publishes wait for up to Options.PublishTimeout.
func (b *Broker) Publish(ctx context.Context, p Publish) {
	if err := b.publish(ctx, &p); err != nil {
		p.Done(Receipt{Partition: p.Partition, Err: err})
	}
}

// publish returns why a publish was not taken.
func (b *Broker) publish(ctx context.Context, p *Publish) error {
	h, err := b.accepts(ctx, p)
	if err != nil {
		return err
	}
	h.use()
	partition, parts, err := h.choose(p, b.lowDisk.Load())
	if err != nil {
		return err
	}
	if parts != nil {
		g := route.NewGather(len(p.Messages), len(parts), p.Done)
		for _, x := range parts {
			b.Publish(ctx, Publish{Topic: p.Topic, Partition: x.Partition, Messages: x.Messages, Done: func(r Receipt) { g.Answer(x, r) }})
		}
		return nil
	}
	key := outletKey{h.name, h.incarnation, partition}
	lp := h.leds(partition)
	if lp == nil || b.outlets.holds(key) {
		return b.outlets.send(key, p, nil)
	}
	if err = ErrDiskFull; b.hasRoom(p.Messages) {
		err = h.offer(lp, p.Messages, p.Done)
	}
	if err == nil || !b.outlets.passing(key, err) {
		return err
	}
	return b.outlets.send(key, p, err)
}

// hasRoom says whether the disk takes messages, and takes the room for them.
func (b *Broker) hasRoom(messages []topic.Message) bool {
	return !b.lowDisk.Load() && b.headroom.take(int64(topic.StoredSize(messages)))
}

// accepts says whether a publish may be made at all, and to which topic.
func (b *Broker) accepts(ctx context.Context, p *Publish) (*hostedTopic, error) {
	if b.exiting.Load() {
		return nil, ErrExiting
	}
	h, err := b.ensure(ctx, p.Topic)
	if err != nil {
		return nil, err
	}
	h.keys.Find(h.config.Load().Config.KeyFrom, p.Messages)
	if err := h.fits(p.Messages, b.o.Sizes); err != nil {
		return nil, err
	}
	if topic.Identified(p.Messages) {
		if err := useIDs(ctx, b.directory, h); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// choose finds the partition that a publish goes to, or the parts that go to several. full:
// the disk of this node takes none.
func (h *hostedTopic) choose(p *Publish, full bool) (int, []*route.Part, error) {
	t := h.config.Load()
	n := len(t.Partitions)
	switch {
	case n == 0:
		return 0, nil, ErrPartitionNotFound
	case p.Partition >= n:
		return 0, nil, fmt.Errorf("%w: %s/%d", ErrPartitionNotFound, h.name, p.Partition)
	case p.Partition >= 0:
		return p.Partition, nil, nil
	case n == 1:
		return 0, nil, nil
	case t.Config.Ordered && route.Unplaced(p.Messages):
		return 0, nil, ErrPartitionNeeded
	}
	places := route.Topic{Partitions: n, Ordered: t.Config.Ordered}
	at, named, parts := places.Split(p.Messages, p.Route, func() int { return h.anyOf(t, full) })
	if named || parts != nil {
		return at, parts, nil
	}
	return h.anyOf(t, full), nil, nil
}

// useIDs sees to it that a topic to which somebody publishes with dedup ids has a window
// for them. The first such publish waits until the metadata says so.
func useIDs(ctx context.Context, d *directory, h *hostedTopic) error {
	if h.config.Load().Config.DedupWindow > 0 {
		return nil
	}
	err := d.AlterTopic(ctx, h.name, func(c *meta.TopicConfig) {
		if c.DedupWindow == 0 {
			c.DedupWindow = meta.DefaultDedupWindow
		}
	})
	if err != nil {
		return fate.Mark(fmt.Errorf("set the deduplication window of topic %q: %w", h.name, err), fate.Refused)
	}
	return nil
}

// anyOf returns one of a topic's partitions in turn: one that this node leads,
// else one that can be written to, else any.
func (h *hostedTopic) anyOf(t *meta.Topic, full bool) int {
	turn := int(h.turn.Add(1) & math.MaxInt32)
	if led := h.led(); !full {
		for k := range led {
			if i := led[(turn+k)%len(led)].index; writable(t, i) {
				return i
			}
		}
	}
	for k := range t.Partitions {
		if i := (turn + k) % len(t.Partitions); writable(t, i) {
			return i
		}
	}
	return turn % len(t.Partitions)
}

// writable says whether publishes to a partition can be committed, as far as the
// metadata knows.
func writable(t *meta.Topic, i int) bool {
	if i >= len(t.Partitions) {
		return false
	}
	p := &t.Partitions[i]
	return p.Leader != "" && len(p.ISR) >= t.Config.MinISR
}

// fits refuses messages that are bigger than the topic takes, and a publish that
// no batch can hold. Whoever takes a publish asks, so that none travels to a leader
// in vain.
func (h *hostedTopic) fits(messages []topic.Message, sizes limit.Sizes) error {
	if n, most := topic.StoredSize(messages), sizes.OrDefault().Entry; n > most {
		return fmt.Errorf("%w: %d bytes, limit of one publish is %d", coord.ErrTooBig, n, most)
	}
	most := h.config.Load().Config.MaxMessage
	if most <= 0 {
		return nil
	}
	for i := range messages {
		if n := len(messages[i].Body); n > most {
			return fmt.Errorf("%w: %d bytes, limit of topic %q is %d", ErrMessageTooBig, n, h.name, most)
		}
	}
	return nil
}

// offer hands messages to a term of the topic; done is told what became of them, unless
// an error is returned.
func (h *hostedTopic) offer(lp *ledPartition, messages []topic.Message, done func(Receipt)) error {
	stored := lp.part.Log().Bytes()
	if err := cmp.Or(h.memory.Take(stored, messages), h.disk.Take(&h.config.Load().Config, stored, messages)); err != nil {
		return err
	}
	return lp.offer(messages, done)
}

package broker

import (
	"context"
	"fmt"
	"hash/fnv"
)

// Publish publishes messages to one partition: see the type Publish. It may wait
// for a topic to be created or for room, but never for an earlier publish.
func (b *Broker) Publish(ctx context.Context, p Publish) {
	hp, err := b.route(ctx, &p)
	if err != nil {
		p.Done(Receipt{Partition: p.Partition, Err: err})
		return
	}
	hp.part.Publish(p.Messages, p.Done)
}

// route finds the partition that a publish goes to, or says why it is refused.
func (b *Broker) route(ctx context.Context, p *Publish) (*ledPartition, error) {
	if b.exiting.Load() {
		return nil, ErrExiting
	}
	if b.lowDisk.Load() {
		return nil, ErrDiskFull
	}
	h, err := b.ensure(ctx, p.Topic)
	if err != nil {
		return nil, err
	}
	config := &h.config.Load().Config
	if limit := config.MaxMessage; limit > 0 {
		for i := range p.Messages {
			if n := len(p.Messages[i].Body); n > limit {
				return nil, fmt.Errorf("%w: %d bytes; topic %q takes %d", ErrMessageTooBig, n, h.name, limit)
			}
		}
	}
	led := h.led()
	if len(led) == 0 {
		return nil, ErrPartitionNotFound
	}
	switch {
	case p.Partition >= 0:
		return h.servedPartition(p.Partition)
	case p.Key != nil:
		return h.servedPartition(PartitionOfKey(p.Key, len(h.partitions())))
	case config.Ordered && len(h.partitions()) > 1:
		return nil, ErrPartitionNeeded
	case len(led) == 1:
		return led[0], nil
	}
	return led[int(h.turn.Add(1)%uint32(len(led)))], nil
}

func (h *hostedTopic) servedPartition(i int) (*ledPartition, error) {
	if lp := h.leds(i); lp != nil {
		return lp, nil
	}
	return nil, fmt.Errorf("%w: %s/%d", ErrPartitionNotFound, h.name, i)
}

// PartitionOfKey returns the partition that messages of a key go to: FNV-1a of
// the key, modulo the number of partitions.
func PartitionOfKey(key []byte, partitions int) int {
	h := fnv.New32a()
	h.Write(key)
	return int(h.Sum32() % uint32(partitions))
}

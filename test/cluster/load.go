package main

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/test/audit"
	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/traffic"
	"github.com/brokerd/brokerd/test/wire"
)

// The topic and the channels of the load, and how clients treat them.
const (
	topic          = "work"
	partitions     = 6
	msgTimeout     = 60 * time.Second
	patience       = 3 * time.Second // of a publisher with an answer
	maxOpen        = 20000           // messages stored and not finished, above which producers wait
	reconnectPause = 20 * time.Millisecond

	// forgetWindow is how long before a fault a FIN may have been sent and be
	// forgotten: positions go to followers at least every 200 ms.
	forgetWindow = time.Second
	// noticeTime is how much later than a redelivery by another node the end of
	// the connection that had the message may be seen.
	noticeTime = time.Second
)

var channels = []string{"a", "b"}

// load is clients on all nodes, and the audit that they tell everything.
type load struct {
	*traffic.Book
	o       options
	nodes   []*nodes.Node
	firstID atomic.Uint64 // of the topic

	// Under the lock of the book.
	gap      gap
	refusals []string // the first error frames to publishers
	refused  int      // all of them

	taken []atomic.Int64               // messages, by consumer
	where []atomic.Pointer[nodes.Node] // of the consumer's connection

	producers, consumers, watcher *traffic.Crew
}

// gap is the longest time without an acknowledgement to anybody.
type gap struct{ last, longest time.Duration }

// newLoad starts the clients. The topic and its channels are there.
func newLoad(o options, c *nodes.Cluster, began time.Time, note func(string, ...any)) *load {
	l := &load{o: o, nodes: c.Nodes, taken: make([]atomic.Int64, o.consumers), where: make([]atomic.Pointer[nodes.Node], o.consumers)}
	l.Book = traffic.NewBook(o.seed, topic, audit.Options{
		Producers: o.producers, Channels: channels, Window: forgetWindow, Grace: forgetWindow, Notice: noticeTime, Partition: l.partitionOf,
		MsgTimeout: msgTimeout, Tolerance: 5 * time.Millisecond, Keep: 2 * msgTimeout,
	})
	l.Began = began
	l.consumers = traffic.Hire(o.consumers, l.consume)
	l.producers = traffic.Hire(o.producers, l.produce)
	l.watcher = traffic.Hire(1, func(ctx context.Context, _ int) { l.watch(ctx, c, note) })
	return l
}

// partitionBit is where a message's partition begins in its place, which is what its id
// is behind the first of the topic.
const partitionBit = 50

// partitionOf reads the partition off an id.
func (l *load) partitionOf(id audit.ID) int {
	n, err := strconv.ParseUint(string(id[:]), 16, 64)
	if err != nil {
		return -1
	}
	return int((n - l.firstID.Load()) >> partitionBit)
}

// watchInterval is how often it is looked who leads.
const watchInterval = 50 * time.Millisecond

// watch tells the audit of partitions whose leadership changes.
func (l *load) watch(ctx context.Context, c *nodes.Cluster, note func(string, ...any)) {
	epochs := map[int]uint64{}
	for ; ctx.Err() == nil; traffic.Pause(ctx, watchInterval) {
		t, err := c.Topic(ctx, topic)
		if err != nil {
			continue // whoever is asked next knows
		}
		if first, err := strconv.ParseUint(t.FirstID, 16, 64); err == nil {
			l.firstID.Store(first)
		}
		for _, p := range t.Partitions {
			if before, known := epochs[p.Partition]; known && p.Epoch > before {
				l.Tell(func(a *audit.Audit, now time.Duration) { a.Move(now, p.Partition) })
				note("%s leads partition %d in epoch %d", p.Leader, p.Partition, p.Epoch)
			}
			epochs[p.Partition] = max(p.Epoch, epochs[p.Partition])
		}
	}
}

// answered notes an answer to a publish. The lock of the book is held.
func (l *load) answered(now time.Duration, o audit.Outcome, data []byte) {
	switch {
	case o == audit.Acknowledged:
		l.acknowledged(now)
	case len(data) > 0:
		l.refuse(now, data)
	}
}

// acknowledged notes the time of an acknowledgement. The lock is held.
func (l *load) acknowledged(now time.Duration) {
	if l.gap.last > 0 {
		l.gap.longest = max(l.gap.longest, now-l.gap.last)
	}
	l.gap.last = now
}

// maxRefusals bounds how many error frames are kept.
const maxRefusals = 5

// refuse notes an error frame. The lock is held.
func (l *load) refuse(now time.Duration, text []byte) {
	l.refused++
	if len(l.refusals) < maxRefusals {
		l.refusals = append(l.refusals, fmt.Sprintf("%.3fs: %s", now.Seconds(), text))
	}
}

// drain sends the producers home and lets the consumers only finish.
func (l *load) drain() {
	l.Calm.Store(true)
	l.producers.Dismiss()
}

// stop ends all clients.
func (l *load) stop() {
	l.producers.Dismiss()
	l.consumers.Dismiss()
	l.watcher.Dismiss()
}

// deliveries are the messages that come over a connection until it ends or the deadline passes.
func deliveries(conn *wire.Client, deadline time.Time) iter.Seq[wire.Delivery] {
	return func(yield func(wire.Delivery) bool) {
		for time.Now().Before(deadline) {
			kind, data, err := conn.AnswerBefore(deadline)
			if err != nil {
				return
			}
			if kind != wire.FrameMessage {
				continue
			}
			if d, err := wire.ParseMessage(data); err != nil || !yield(d) {
				return
			}
		}
	}
}

// dialer connects to one node after the other: first to the one that it is given,
// and to the next whenever it is asked again.
type dialer struct {
	nodes []*nodes.Node
	next  int
	o     wire.Options
}

// at is the node that the last connection was made to.
func (d *dialer) at() *nodes.Node { return d.nodes[(d.next-1)%len(d.nodes)] }

// dial connects, or waits a moment and returns nil.
func (d *dialer) dial(ctx context.Context) *wire.Client {
	n := d.nodes[d.next%len(d.nodes)]
	d.next++
	c, err := wire.Dial(n.TCP, d.o)
	if err != nil {
		traffic.Pause(ctx, reconnectPause)
		return nil
	}
	return c
}

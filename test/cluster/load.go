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

// The topic and the channels of the load, and the limits of its clients.
const (
	topic          = "work"
	partitions     = 6
	producers      = 8
	consumers      = 8    // on both channels
	rate           = 1500 // messages a second at most
	minAcks        = 500  // a scenario with fewer acknowledgements is void
	msgTimeout     = 60 * time.Second
	patience       = 3 * time.Second // how long a publisher waits for an answer
	maxOpen        = 20000           // producers wait while more messages than this are stored and not finished
	reconnectPause = 20 * time.Millisecond

	// forgetWindow is how long before a fault a FIN may have been sent and still be forgotten:
	// positions go to followers at least every 200 ms.
	forgetWindow = time.Second
	// noticeTime is how long a client may take to notice the end of the connection that had a
	// message, after another node has delivered the message again.
	noticeTime = time.Second
)

var channels = []string{"a", "b"}

// load is the clients on all nodes, and the audit to which they report.
type load struct {
	*traffic.Book
	nodes   []*nodes.Node
	firstID atomic.Uint64 // of the topic
	round   atomic.Int64  // of the only node's process; 0: messages move between nodes

	// Guarded by the lock of the book.
	gap      gap
	refusals []string // the first error frames to publishers
	refused  int      // how many there were

	taken []atomic.Int64               // received messages, by consumer
	where []atomic.Pointer[nodes.Node] // the node that the consumer is connected to

	producers, consumers, watcher *traffic.Crew
}

// gap is the longest time in which no producer got an acknowledgement.
type gap struct{ last, longest time.Duration }

// newLoad starts the clients of a stage. The topic and its channels must exist.
func newLoad(st *stage) *load {
	l := &load{nodes: st.c.Nodes, taken: make([]atomic.Int64, consumers), where: make([]atomic.Pointer[nodes.Node], consumers)}
	expect := audit.Options{
		Producers: producers, Channels: channels, Window: forgetWindow, Grace: forgetWindow, Notice: noticeTime, Partition: l.partitionOf,
		MsgTimeout: msgTimeout, Tolerance: 5 * time.Millisecond, Keep: 2 * msgTimeout,
	}
	if st.s.crashes {
		expect.Window, expect.Grace, expect.Notice, expect.Partition = crashWindow, crashWindow, 0, nil
		l.round.Store(1)
	}
	l.Book = traffic.NewBook(st.o.seed, topic, expect)
	l.Began = st.began
	l.consumers = traffic.Hire(consumers, l.consume)
	l.producers = traffic.Hire(producers, l.produce)
	l.watcher = traffic.Hire(1, func(ctx context.Context, _ int) {
		if !st.s.crashes {
			l.watch(ctx, st.c, st.note)
		}
	})
	return l
}

// partitionBit is the lowest bit of the partition in a message's place. The place is the message's
// id minus the first id of the topic.
const partitionBit = 50

// partitionOf returns the partition in an id.
func (l *load) partitionOf(id audit.ID) int {
	n, err := strconv.ParseUint(string(id[:]), 16, 64)
	if err != nil {
		return -1
	}
	return int((n - l.firstID.Load()) >> partitionBit)
}

// watchInterval is how often watch looks for changes of leaders.
const watchInterval = 50 * time.Millisecond

// watch reports partitions whose leadership changes to the audit.
func (l *load) watch(ctx context.Context, c *nodes.Cluster, note func(string, ...any)) {
	epochs := map[int]uint64{}
	for ; ctx.Err() == nil; traffic.Pause(ctx, watchInterval) {
		t, err := c.Topic(ctx, topic)
		if err != nil {
			continue // the next node that is asked knows
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

// answered records an answer to a publish. The caller holds the lock of the book.
func (l *load) answered(now time.Duration, o audit.Outcome, data []byte) {
	switch {
	case o == audit.Acknowledged:
		l.acknowledged(now)
	case len(data) > 0:
		l.refuse(now, data)
	}
}

// acknowledged records the time of an acknowledgement. The caller holds the lock.
func (l *load) acknowledged(now time.Duration) {
	if l.gap.last > 0 {
		l.gap.longest = max(l.gap.longest, now-l.gap.last)
	}
	l.gap.last = now
}

// maxRefusals bounds how many error frames are kept.
const maxRefusals = 5

// refuse records an error frame. The caller holds the lock.
func (l *load) refuse(now time.Duration, text []byte) {
	l.refused++
	if len(l.refusals) < maxRefusals {
		l.refusals = append(l.refusals, fmt.Sprintf("%.3fs: %s", now.Seconds(), text))
	}
}

// drain stops the producers, and lets the consumers finish the remaining messages.
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

// deliveries returns the messages that arrive on a connection until it ends or the deadline passes.
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

package publish

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/route"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Options configure a router.
type Options struct {
	Self           meta.NodeID
	Meta           *raftstore.Store
	Calls          forward.Caller // to other nodes
	Memory         *limit.Memory  // for what clients make the node hold; nil: no limit
	PublishTimeout time.Duration  // how long a publish waits for a leader
	Observer       topic.Observer
}

// Request is a request to publish messages to a topic. The messages that go to one partition are
// stored as a whole or not at all; without keys and dedup ids, that is all of them.
type Request struct {
	Topic     string
	Partition int // AnyPartition: by each message's key, else by its dedup id, else round robin over the writable ones
	Messages  []topic.Message
	Route     []byte // partition of messages without a key, instead of their dedup ids; nil: none
	// Done is called exactly once, possibly before Publish returns, from any goroutine. It must not
	// block and must not call the broker.
	Done func(topic.Receipt)
	// Inline, if not nil, may be called once before Publish returns, on its goroutine, with a
	// function that appends the messages: see topic.Offered.
	Inline func(appendHere func())
}

// Router routes publishes to the leaders of their partitions. Its methods are safe for
// concurrent use.
type Router struct {
	o         Options
	host      *host.Host
	topics    *directory.Directory
	queues    *queues
	receivers *receivers
}

// New returns a router whose goroutines belong to a group.
func New(o Options, h *host.Host, d *directory.Directory, tasks *fan.Group) *Router {
	r := &Router{o: o, host: h, topics: d, receivers: &receivers{host: h, start: tasks.Go, all: map[receiverKey]*receiver{}}}
	r.queues = newQueues(&r.o, h, tasks.Go)
	return r
}

// Run retries publishes that wait for a leader until ctx ends; then all are refused.
func (r *Router) Run(ctx context.Context) { r.queues.run(ctx) }

// HandlePublish handles a publish of another node: see receivers.receive.
func (r *Router) HandlePublish(from meta.NodeID, session uint64, payload []byte, reply func([][]byte, error)) {
	r.receivers.receive(from, session, payload, reply)
}

// Down reports that a session of another node has ended.
func (r *Router) Down(from meta.NodeID, session uint64) { r.receivers.down(from, session) }

// Waiting returns the number of partitions with publishes in a forward queue, and the bytes of
// these publishes.
func (r *Router) Waiting() (partitions int, bytes int64) {
	return int(r.queues.active.Load()), r.queues.bytes.Load()
}

// Publish publishes messages: see Request. It may wait for a topic to be created or for space,
// but never for an earlier publish.
//
// If another node leads the partition, the messages are forwarded and that node's answer is
// returned. Sequential publishes of one caller to one partition are appended in that order,
// even while the leadership moves: they wait for up to Options.PublishTimeout.
func (r *Router) Publish(ctx context.Context, p Request) {
	if err := r.publish(ctx, &p); err != nil {
		r.o.Observer.ObservePublish(0, err) // refused at once: nothing behind here has seen it
		p.Done(topic.Receipt{Partition: p.Partition, Err: err})
	}
}

// publish returns why a publish was not accepted.
func (r *Router) publish(ctx context.Context, p *Request) error {
	h, err := r.accepts(ctx, p)
	if err != nil {
		return err
	}
	if h.Config().Config.Trace != "" {
		sign(ctx, r.o.Self, p.Messages)
	}
	partition, parts, err := choose(h, p, r.host.Disk.Low())
	if err != nil {
		return err
	}
	if parts != nil {
		g := route.NewGather(len(p.Messages), len(parts), p.Done)
		for _, x := range parts {
			r.Publish(ctx, Request{Topic: p.Topic, Partition: x.Partition, Messages: x.Messages, Done: func(r topic.Receipt) { g.Answer(x, r) }})
		}
		return nil
	}
	key := meta.PartitionID{Topic: h.Name, Incarnation: h.Incarnation, Partition: partition}
	lp := h.Led(partition)
	if lp == nil || r.queues.holds(key) {
		return r.queues.send(key, p, nil)
	}
	if err = failure.DiskFull; r.host.Disk.Reserve(topic.StoredSize(p.Messages)) {
		err = offer(h, lp, topic.Offered{Messages: p.Messages, Done: p.Done, Inline: p.Inline})
	}
	if err == nil || !r.queues.passing(key, err) {
		return err
	}
	return r.queues.send(key, p, err)
}

// offer appends messages through a term of this node. A message for one channel is refused if the topic has that no
// longer, or the partition has it not yet: all channels would skip it, and its sender forget it.
func offer(h *host.Topic, lp *host.Led, o topic.Offered) error {
	for i := range o.Messages {
		a := o.Messages[i].Address
		if a == nil {
			continue
		}
		begun := slices.ContainsFunc(lp.Part.Channels(), func(c *topic.Channel) bool { return c.HasVersion(a.Channel) })
		if !begun || !h.Config().HasVersion(a.Channel) {
			return fmt.Errorf("channel was deleted or created again since the message was addressed to it, or the partition has yet to add it: %w", failure.StaleVersion)
		}
	}
	return h.Offer(lp, o)
}

// accepts checks whether a publish is possible at all, and returns its topic.
func (r *Router) accepts(ctx context.Context, p *Request) (*host.Topic, error) {
	if r.host.Exiting() {
		return nil, failure.ShuttingDown
	}
	h, err := r.topics.EnsureHosted(ctx, p.Topic)
	if err != nil {
		return nil, err
	}
	h.FindKeys(p.Messages)
	if err := h.Fits(p.Messages); err != nil {
		return nil, err
	}
	if topic.Identified(p.Messages) {
		if err := useIDs(ctx, r.topics, h); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// choose returns the partition of a publish, or the parts that go to several. full: the disk of
// this node accepts none.
func choose(h *host.Topic, p *Request, full bool) (int, []*route.Part, error) {
	t := h.Config()
	n := len(t.Partitions)
	switch {
	case n == 0:
		return 0, nil, failure.PartitionNotFound
	case p.Partition >= n:
		return 0, nil, fmt.Errorf("%w: %s/%d", failure.PartitionNotFound, h.Name, p.Partition)
	case p.Partition >= 0:
		return p.Partition, nil, nil
	case n == 1:
		return 0, nil, nil
	case t.Config.Ordered && route.Unplaced(p.Messages):
		return 0, nil, failure.PartitionNeeded
	}
	places := route.Topic{Partitions: n, Ordered: t.Config.Ordered}
	at, named, parts := places.Split(p.Messages, p.Route, func() int { return anyOf(h, t, full) })
	if named || parts != nil {
		return at, parts, nil
	}
	return anyOf(h, t, full), nil, nil
}

// useIDs ensures that a topic to which a client publishes with dedup ids has a window for them. The
// first such publish waits until the metadata has it.
func useIDs(ctx context.Context, d *directory.Directory, h *host.Topic) error {
	if h.Config().Config.DedupWindow > 0 {
		return nil
	}
	err := d.AlterTopic(ctx, h.Name, func(c *meta.TopicConfig) {
		if c.DedupWindow == 0 {
			c.DedupWindow = meta.DefaultDedupWindow
		}
	})
	if err != nil {
		return fate.Mark(fmt.Errorf("set the deduplication window of topic %q: %w", h.Name, err), fate.Refused)
	}
	return nil
}

// anyOf returns one of a topic's partitions in turn: one that this node leads, otherwise one that
// can be written to, otherwise any.
func anyOf(h *host.Topic, t *meta.Topic, full bool) int {
	turn := h.NextTurn()
	if led := h.AllLed(); !full {
		for k := range led {
			if i := led[(turn+k)%len(led)].Index; writable(t, i) {
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

// writable reports whether publishes to a partition can be committed, according to the metadata.
func writable(t *meta.Topic, i int) bool {
	if i >= len(t.Partitions) {
		return false
	}
	p := &t.Partitions[i]
	return p.Leader != "" && len(p.ISR) >= t.Config.MinISR
}

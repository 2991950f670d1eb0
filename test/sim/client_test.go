package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/simtest"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

// publishEvery is at most the time between two publishes of a publisher while nodes fail, and
// calmEvery is that time when nodes no longer fail: the checks then need messages, but only a few.
const (
	publishEvery = 30 * time.Millisecond
	calmEvery    = 10 * publishEvery
)

// publish runs a publisher of one partition, which publishes at any node.
func (w *world) publish(number, partition int, rnd *rand.Rand, stop <-chan struct{}) {
	for {
		every := publishEvery
		if w.calm.Load() {
			every = calmEvery
		} else if w.plan.body > smallBody {
			every = 4 * publishEvery
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.Int64N(int64(every)))):
		}
		if l := w.machines[rnd.IntN(len(w.machines))].running(); l != nil {
			for range 1 + rnd.IntN(3) {
				l.publish(number, partition, rnd)
			}
		}
	}
}

func (l *life) publish(number, partition int, rnd *rand.Rand) {
	h := l.w.histories[partition]
	name := h.Call(number)
	body := append([]byte(name+" "), make([]byte, rnd.IntN(l.w.plan.body))...)
	delayed := 8
	if l.w.calm.Load() {
		delayed = 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	l.broker.Load().Router.Publish(ctx, publish.Request{
		Topic: theTopic, Partition: partition, Messages: []topic.Message{{Body: body, Key: []byte(keyOf(name)), Delay: l.w.clocks.delay(name, delayed, rnd)}},
		Done: func(r topic.Receipt) {
			l.mu.RLock()
			defer l.mu.RUnlock()
			switch {
			case l.dead: // the answer is lost
				h.Resolve(name, simtest.Unknown, 0, 0)
			case r.Err == nil:
				h.Resolve(name, simtest.Acked, uint64(r.First), 0)
			case fate.Of(r.Err) == fate.Refused:
				h.Resolve(name, simtest.Failed, 0, 0)
			default:
				h.Resolve(name, simtest.Unknown, 0, 0)
			}
		},
	})
}

// nameOf returns the name of the message with a body.
func nameOf(body []byte) string {
	for i, b := range body {
		if b == ' ' {
			return string(body[:i])
		}
	}
	return "?"
}

// consumer is a client with a subscription.
type consumer struct {
	w     *world
	kind  int // the index in channelNames
	rnd   *rand.Rand
	lazy  *rand.Rand // decides when it does not read; nil: it always reads
	wake  chan struct{}
	once  *sync.Once
	ended chan struct{}
}

// ClientStats implements consume.Client.
func (c *consumer) ClientStats() stats.Client {
	return stats.Client{Consumer: api.Consumer{ClientID: "sim"}}
}

// Disconnect implements consume.Client.
func (c *consumer) Disconnect(error) { c.once.Do(func() { close(c.ended) }) }

// Unfinished implements consume.Client: the message is delivered again.
func (c *consumer) Unfinished(seq.MessageID, error) {}

func (c *consumer) woken() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// consume runs a consumer that subscribes at any node, and subscribes again when the node
// disconnects it.
func (w *world) consume(kind int, rnd, lazy *rand.Rand, stop <-chan struct{}) {
	if w.plan.stalls == 0 {
		lazy = nil
	}
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.Int64N(int64(50 * time.Millisecond)))):
		}
		l := w.machines[rnd.IntN(len(w.machines))].running()
		if l == nil {
			continue
		}
		c := &consumer{w: w, kind: kind, rnd: rnd, lazy: lazy, wake: make(chan struct{}, 1), once: new(sync.Once), ended: make(chan struct{})}
		c.session(l, stop)
	}
}

func (c *consumer) session(l *life, stop <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	s, err := l.broker.Load().Consumers.Subscribe(ctx, consume.Subscribe{
		Topic: theTopic, Channel: channelNames[c.kind], Partition: host.AnyPartition, Ordered: channelOrders[c.kind] == policy.Strict,
		Client: c, MsgTimeout: c.w.plan.timeout, Wake: c.woken,
	})
	if err != nil {
		return
	}
	defer s.Close()
	s.SetReady(1 + c.rnd.IntN(20))
	leave := time.After(time.Duration(c.rnd.Int64N(int64(10 * time.Second))))
	for {
		if !c.stall(l, stop) {
			return
		}
		var ids []seq.MessageID
		n, err := s.Take(time.Now(), 20, func(d *topic.Delivery) error {
			if !c.take(l, d) {
				return errors.New("the connection is gone")
			}
			ids = append(ids, d.ID)
			return nil
		})
		if err != nil {
			return
		}
		for _, id := range ids {
			c.answer(l, s, id)
		}
		if n > 0 {
			continue
		}
		select {
		case <-c.wake: // it looks again only when it is woken, as the writer of a connection does
		case <-c.ended:
			return
		case <-l.over:
			return
		case <-leave:
			if !c.w.draining.Load() {
				return
			} // a consumer that gets no more messages is not woken
		case <-stop:
			return
		}
	}
}

// stall makes a consumer do nothing now and then, for up to three message timeouts. It returns
// whether the consumer's session is still alive.
func (c *consumer) stall(l *life, stop <-chan struct{}) bool {
	if c.lazy == nil || c.lazy.IntN(c.w.plan.stalls) > 0 || c.w.draining.Load() {
		return true
	}
	select {
	case <-time.After(time.Duration(c.lazy.Int64N(int64(3 * c.w.plan.timeout)))):
		return true
	case <-c.ended:
	case <-l.over:
	case <-stop:
	}
	return false
}

// take notes a delivery if the process is still alive.
func (c *consumer) take(l *life, d *topic.Delivery) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.dead {
		return false
	}
	partition := d.ID.Partition()
	two := c.w.twoLeaders(partition)
	late := two || l.m.mayHearLate() || c.w.isBehind(l, partition)
	if early := c.w.clocks.early(nameOf(d.Body)); early > 0 {
		c.w.wrong("%s was delivered %v before its delay had passed", nameOf(d.Body), early)
	}
	c.w.channels[c.kind][partition].Deliver(nameOf(d.Body), uint64(d.ID.Offset()), late)
	return true
}

// answer finishes a message, requeues it, or does not answer.
func (c *consumer) answer(l *life, s *consume.Subscription, id seq.MessageID) {
	if c.w.draining.Load() {
		c.w.channels[c.kind][id.Partition()].Finish(uint64(id.Offset()))
		_ = s.Finish(id)
		return
	}
	if c.rnd.IntN(4) == 0 {
		time.Sleep(time.Duration(c.rnd.Int64N(int64(20 * time.Millisecond))))
	}
	switch k := c.rnd.IntN(100); {
	case l.isDead():
	case k < 3:
		_ = s.Requeue(id, time.Duration(c.rnd.Int64N(int64(100*time.Millisecond))))
	case k < 5: // it times out
	case k < 8:
		_ = s.Touch(id)
		fallthrough
	default:
		c.w.channels[c.kind][id.Partition()].Finish(uint64(id.Offset()))
		_ = s.Finish(id)
	}
}

// readLate reads the channel that had no consumer while nodes failed: its messages
// come from the disks.
func (w *world) readLate(rnd *rand.Rand) {
	var consumers sync.WaitGroup
	done := make(chan struct{})
	consumers.Go(func() { w.consume(readWhole, rnd, nil, done) })
	w.await(toDrain, "everything is delivered to who comes late", func() string { return w.undelivered(readWhole, len(w.channels)) })
	close(done)
	consumers.Wait()
}

package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/tools/loadgen/internal/body"
	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
)

// deferrer is what a Publisher has to be for Deferred.
type deferrer interface {
	// SendDeferred is Send of one message that is to be delivered after a delay.
	SendDeferred(body []byte, delay time.Duration, acked func(error)) error
}

// Deferred publishes messages that are due at random moments of an interval, and
// measures how late one consumer gets them. Each body carries the moment at which it
// is due where others carry the one at which it was sent.
func Deferred(ctx context.Context, d broker.Driver, o Options, r *Result) {
	*r = Result{Workload: "deferred", Size: o.Size, Window: o.Window * o.Batch}
	o.Group = true
	withTopic(ctx, d, &o, func() {
		start := clock() + int64(o.Lead)
		fill(ctx, d, &o, r, func(p *producer) { p.runDeferred(o, start) })
		rest := time.Duration(start - clock())
		if rest < 0 {
			steps.Fail("publishing took %v longer than -lead", -rest)
		}
		o.full()
		c := steps.Need(d.Consumer(ctx, o.Topic))
		time.Sleep(time.Duration(start - clock()))
		late := newHist()
		defer func() { r.Late = latency(late) }()
		drain(ctx, d, o, c, r, func(h body.Header) { record(late, clock()-h.SentNs) })
	})
}

// runDeferred publishes the messages, each to be due in the interval that begins at
// start.
func (p *producer) runDeferred(o Options, start int64) {
	pub, ok := p.pub.(deferrer)
	if !ok {
		p.fail(errors.New("this driver cannot defer messages"))
		return
	}
	window := o.Window * o.Batch
	free := p.buffers(window, 1)
	random := rand.New(rand.NewSource(1))
	for p.seq < uint64(o.Messages) {
		bb := <-free
		if p.err.Load() != nil {
			return
		}
		due := start + random.Int63n(int64(o.Spread)+1)
		body.Fill(bb.bodies[0], body.Header{Sender: p.id, Seq: p.seq, SentNs: due})
		p.seq++
		if err := pub.SendDeferred(bb.bodies[0], time.Duration(due-clock()), bb.ack); err != nil {
			p.fail(err)
			return
		}
	}
	p.collect(free)
}

// Scrambled publishes messages that become due at random moments, so that they are consumed in
// another order than the log's, and has many consumers hold all of them in flight. Then it
// disconnects these, and measures one consumer that consumes all messages.
func Scrambled(ctx context.Context, d broker.Driver, o Options, r *Result) {
	*r = Result{Workload: "scrambled", Size: o.Size, Window: o.Window * o.Batch}
	o.Group = true
	withTopic(ctx, d, &o, func() {
		hold(ctx, d, o, func() {
			fill(ctx, d, &o, r, func(p *producer) { p.runDeferred(o, clock()+int64(o.Lead)) })
		})
		time.Sleep(o.Settle)
		o.full()
		drain(ctx, d, o, steps.Need(d.Consumer(ctx, o.Topic)), r, func(body.Header) {})
	})
}

// hold makes -consumers receive all the messages that fill publishes, and answer none.
func hold(ctx context.Context, d broker.Driver, o Options, fill func()) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	var got atomic.Int64
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range o.Consumers {
		c := steps.Need(d.Consumer(ctx, o.Topic))
		wg.Go(func() {
			defer c.Close()
			_ = c.Run(ctx, func([]byte) error {
				if got.Add(1) == int64(o.Messages) {
					cancel()
				}
				return broker.ErrKeep
			})
		})
	}
	fill()
	wg.Wait()
	if n := got.Load(); n < int64(o.Messages) {
		steps.Fail("%d of %d messages in flight: -consumers times the RDY count must be more", n, o.Messages)
	}
}

// full calls the caller's function when all messages are stored.
func (o *Options) full() {
	if o.Full != nil {
		steps.Must(o.Full())
	}
}

// drain measures a consumer that receives all the messages.
func drain(ctx context.Context, d broker.Driver, o Options, c broker.Consumer, r *Result, each func(body.Header)) {
	n := o.Messages
	m := startMeters(o.Pids)
	var seen body.Seen
	seen.Add(uint64(n - 1)) // makes room
	seen = body.Seen{}
	t0, t1 := clock(), int64(0)
	limited, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	err := c.Run(limited, func(b []byte) error {
		h, err := body.Check(b, o.Size)
		if err != nil {
			return err
		}
		if h.Seq >= uint64(n) {
			return fmt.Errorf("sequence number %d was never sent", h.Seq)
		}
		if !seen.Add(h.Seq) {
			return nil
		}
		each(h)
		if seen.Unique == int64(n) {
			t1 = clock()
			cancel()
		}
		return nil
	})
	err = cmp.Or(err, m.stop(r, seen.Unique))
	c.Close()
	if t1 == 0 {
		t1 = clock() // ran out of time: the rate is that of the consumed messages
	}
	r.rate(seen.Unique, t1-t0)
	r.Received, r.Dups, r.Reordered = seen.Unique, seen.Dups, seen.Order
	r.Lost = int64(n) - seen.Unique
	steps.Must(err)
	r.Unacked = backlogAfter(ctx, d, o.Topic)
}

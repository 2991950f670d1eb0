package load

import (
	"context"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/tools/loadgen/internal/body"
	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
)

// EndToEnd measures one producer and one consumer at work together.
func EndToEnd(ctx context.Context, d broker.Driver, o Options, r *Result) {
	*r = Result{Workload: "e2e", Size: o.Size, Producers: 1, Rate: o.Rate, Batch: 1, Window: o.Window}
	if o.Rate == 0 {
		r.Batch = o.Batch
	} else {
		r.Window = o.Window * o.Batch
	}
	o.Group = true
	withTopic(ctx, d, &o, func() {
		x := newExchange(o)
		x.producer = newProducer(ctx, d, &o, 0, &x.on)
		defer x.producer.pub.Close()
		c := steps.Need(d.Consumer(ctx, o.Topic))
		defer c.Close()
		x.run(ctx, c, r)
		c.Close()
		r.Unacked = backlogAfter(ctx, d, o.Topic)
	})
}

// exchange is one producer and one consumer, and what passes between them.
type exchange struct {
	o        Options
	producer *producer
	on       atomic.Bool // latencies are recorded while set
	received atomic.Int64
	last     atomic.Int64  // messages sent in total; -1: not known yet
	room     chan struct{} // batches published and not yet received
	start    int64         // of the open-loop schedule
	interval float64       // between two messages of it, in ns

	// of the consumer
	seen       body.Seen
	inBatch    int
	e2e, sched *hdr.Histogram
}

func newExchange(o Options) *exchange {
	x := &exchange{
		o: o, room: make(chan struct{}, max(o.Unconsumed/o.Batch, 1)),
		start: clock() + int64(leadTime), e2e: newHist(), sched: newHist(),
	}
	if o.Rate > 0 {
		x.interval = 1e9 / o.Rate
	}
	x.last.Store(-1)
	return x
}

// The schedule starts leadTime after it is computed; the consumer has drainTime for what is still
// in progress when the producer has stopped.
const (
	leadTime  = 100 * time.Millisecond
	drainTime = 10 * time.Second
)

// run lets both work for the warm-up and the measured interval, waits for what
// is in progress, and fills in r.
func (x *exchange) run(ctx context.Context, c broker.Consumer, r *Result) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	consumed := make(chan error, 1)
	go func() {
		consumed <- c.Run(ctx, func(b []byte) error { return x.receive(b, cancel) })
	}()
	stop, produced := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(produced)
		if x.o.Rate > 0 {
			x.producer.runPaced(stop, x.o.Window*x.o.Batch, x.start, x.interval)
			return
		}
		x.producer.runRoom(stop, x.o.Window, x.o.Batch, x.room)
	}()
	x.measure(r)
	close(stop)
	<-produced
	steps.Must(x.producer.failed())
	r.Published = x.producer.acked.Load()
	x.last.Store(r.Published)
	if x.received.Load() >= r.Published {
		cancel()
	}
	var err error
	select {
	case err = <-consumed:
	case <-time.After(drainTime):
		cancel()
		err = <-consumed
	}
	steps.Must(err)
	r.Ack, r.EndToEnd, r.FromSched = latency(x.producer.hist), latency(x.e2e), latency(x.sched)
	r.Received, r.Dups, r.Reordered = x.seen.Unique, x.seen.Dups, x.seen.Order
	r.Lost = r.Published - x.seen.Unique
}

// receive receives one message. done is called when it was the last.
func (x *exchange) receive(b []byte, done func()) error {
	now := clock()
	h, err := body.Check(b, x.o.Size)
	if err != nil {
		return err
	}
	if !x.seen.Add(h.Seq) {
		return nil
	}
	if x.on.Load() {
		record(x.e2e, now-h.SentNs)
		if x.o.Rate > 0 {
			record(x.sched, now-x.start-int64(float64(h.Seq)*x.interval))
		}
	}
	x.received.Add(1)
	if x.inBatch++; x.o.Rate == 0 && x.inBatch%x.o.Batch == 0 {
		<-x.room
	}
	if n := x.last.Load(); n >= 0 && x.seen.Unique >= n {
		done()
	}
	return nil
}

// measure waits out the warm-up and measures the interval after it.
func (x *exchange) measure(r *Result) {
	time.Sleep(x.o.Warmup + leadTime)
	m := startMeters(x.o.Pids)
	x.on.Store(true)
	t0, n0 := clock(), x.received.Load()
	time.Sleep(x.o.Duration)
	t1, n1 := clock(), x.received.Load()
	x.on.Store(false)
	if n1 == n0 {
		steps.Fail("nothing was received")
	}
	r.rate(n1-n0, t1-t0)
	steps.Must(m.stop(r, n1-n0))
}

package workload

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/measure"
	"github.com/brokerd/brokerd/internal/nsqlink"
	"github.com/brokerd/brokerd/pkg/client"
)

// DrainOptions define what is consumed.
type DrainOptions struct {
	Channel   string
	Messages  int64         // 0: no limit
	Duration  time.Duration // 0: no limit
	Idle      time.Duration // it ends after this long without a message
	Consumers int           // below 1: 1
	Ready     int           // messages in flight of a consumer
	Stamp     measure.Stamp // counts only the messages of this stamp; zero: all
}

// Drain consumes with several clients.
type Drain struct {
	o         DrainOptions
	left      atomic.Int64 // of o.Messages
	seen      atomic.Int64 // messages, to detect idleness
	full      chan struct{}
	consumers []*consumer
}

// consumer holds the results of one client. Its fields belong to its goroutine until that has
// ended.
type consumer struct {
	from        *nsqlink.Subscription
	counts      measure.Counts
	delays      measure.Histogram
	first, last time.Time
}

// OpenDrain subscribes all consumers to the channel, or none.
func OpenDrain(ctx context.Context, topic *nsqlink.Topic, o DrainOptions) (*Drain, error) {
	d := &Drain{o: o, full: make(chan struct{})}
	d.left.Store(o.Messages)
	for range max(o.Consumers, 1) {
		from, err := topic.Subscribe(ctx, o.Channel, client.WithMaxInFlight(o.Ready))
		if err != nil {
			_ = d.Close() // the first error is returned
			return nil, err
		}
		d.consumers = append(d.consumers, &consumer{from: from, delays: measure.NewHistogram()})
	}
	return d, nil
}

// Close closes the consumers once their finishes were confirmed. It returns the first failure of a
// consumer.
func (d *Drain) Close() (failed error) {
	for _, c := range d.consumers {
		failed = cmp.Or(failed, c.from.Leave())
	}
	return failed
}

// Run consumes until one of the limits is reached, or the context ends, and closes the consumers. It
// returns the failure of a consumer.
func (d *Drain) Run(ctx context.Context) error {
	if d.o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.o.Duration)
		defer cancel()
	}
	running, stop := context.WithCancel(context.Background())
	defer stop()
	var reading sync.WaitGroup
	for _, c := range d.consumers {
		reading.Go(func() {
			defer stop() // the others continue at most until the next limit
			for m := range c.from.Messages() {
				d.receive(c, m)
			}
		})
	}
	d.wait(ctx, running)
	err := d.Close()
	reading.Wait()
	return err
}

// wait returns when the run has ended.
func (d *Drain) wait(ctx, running context.Context) {
	idle := time.NewTicker(d.o.Idle)
	defer idle.Stop()
	for before := int64(-1); ; {
		select {
		case <-ctx.Done():
			return
		case <-running.Done():
			return
		case <-d.full:
			return
		case <-idle.C:
			now := d.seen.Load()
			if now == before {
				return
			}
			before = now
		}
	}
}

// receive counts a message and finishes it. Messages beyond the limit are requeued; messages of
// other runs are finished and not counted.
func (d *Drain) receive(by *consumer, m *client.Message) {
	sent, ours := d.o.Stamp.Get(m.Body)
	if d.o.Stamp.On() && !ours {
		_ = m.Finish()
		return
	}
	d.seen.Add(1)
	if d.o.Messages > 0 {
		left := d.left.Add(-1)
		if left < 0 {
			_ = m.Requeue(0)
			return
		}
		if left == 0 {
			close(d.full)
		}
	}
	now := time.Now()
	if by.first.IsZero() {
		by.first = now
	}
	by.last = now
	if ours {
		by.delays.Record(now.Sub(sent))
	}
	by.counts.Messages++
	by.counts.Bytes += int64(len(m.Body))
	if m.Attempts > 1 {
		by.counts.Redelivered++
	}
	_ = m.Finish()
}

// Result adds up the consumers after Run has returned.
func (d *Drain) Result() Result {
	total := Result{Latency: measure.NewHistogram()}
	var first, last time.Time
	for _, c := range d.consumers {
		total.Counts.Add(c.counts)
		total.Latency.Merge(c.delays)
		if !c.first.IsZero() && (first.IsZero() || c.first.Before(first)) {
			first = c.first
		}
		if c.last.After(last) {
			last = c.last
		}
	}
	total.Took = last.Sub(first)
	return total
}

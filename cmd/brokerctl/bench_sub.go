package main

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/client"
)

// drainOptions define what is consumed.
type drainOptions struct {
	channel   string
	messages  int64
	duration  time.Duration
	idle      time.Duration
	consumers int
	ready     int
	tcp       []string
}

func newBenchSubCommand(g *globals) *cobra.Command {
	var o drainOptions
	cmd := acting(g, &cobra.Command{
		Use:   "sub TOPIC",
		Short: "Measure consume throughput",
		Long: `Consume and finish messages over the NSQ protocol, and measure the throughput from the first
message to the last. Stops after --messages, after --duration, or after --idle without a message.`,
		Example: `  brokerctl bench sub load --channel bench --consumers 2`,
	}, func(cmd *cobra.Command, at target) error {
		if err := o.validate(); err != nil {
			return err
		}
		return benchSub(cmd, g, o, at.topic)
	})
	o.addFlags(cmd)
	return cmd
}

func (o *drainOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.channel, "channel", "bench", "`CHANNEL` to consume from, created if missing")
	f.Int64Var(&o.messages, "messages", 0, "stop after `N` messages; 0 means no limit")
	durationVar(f, &o.duration, "duration", "stop after this long; 0 means no limit")
	o.idle = 2 * time.Second
	durationVar(f, &o.idle, "idle", "stop after this long without a message")
	f.IntVar(&o.consumers, "consumers", 1, "number of consumers, each with a connection to every leader")
	f.IntVar(&o.ready, "window", 1000, "messages in flight per consumer")
	f.StringArrayVar(&o.tcp, "tcp", nil, "connect to this `HOST:PORT` (default: advertised by the topic's leaders)")
}

func (o *drainOptions) validate() error {
	switch {
	case o.messages < 0:
		return usageError("--messages must not be below 0")
	case o.idle == 0 || o.consumers < 1 || o.ready < 1:
		return usageError("--idle, --consumers and --window must be above 0")
	case o.channel == "":
		return usageError("--channel must not be empty")
	}
	return nil
}

func benchSub(cmd *cobra.Command, g *globals, o drainOptions, topic string) error {
	ctx := cmd.Context()
	target, err := targetOf(cmd, g, topic, o.tcp, false)
	if err != nil {
		return err
	}
	d := newDrain(o, stamp{})
	if err := d.open(ctx, target); err != nil {
		return err
	}
	if err := d.run(ctx); err != nil {
		return err
	}
	total, took, _ := d.sum()
	return g.showReport(cmd, benchReport{Topic: topic, Channel: o.channel, Consume: newThroughput(total, took)}, nil)
}

// drain consumes with several clients.
type drain struct {
	o         drainOptions
	stamp     stamp
	left      atomic.Int64 // of o.messages
	seen      atomic.Int64 // messages, to detect idleness
	full      chan struct{}
	consumers []*consumer
}

// consumer holds the results of one client. Its fields belong to its goroutine until that has
// ended.
type consumer struct {
	from        *subscription
	counts      counts
	delays      histogram
	first, last time.Time
}

func newDrain(o drainOptions, s stamp) *drain {
	d := &drain{o: o, stamp: s, full: make(chan struct{})}
	d.left.Store(o.messages)
	return d
}

// open subscribes all consumers to the channel, or none.
func (d *drain) open(ctx context.Context, target *nsqTarget) error {
	for range max(d.o.consumers, 1) {
		from, err := target.subscribe(ctx, d.o.channel, client.WithMaxInFlight(d.o.ready))
		if err != nil {
			_ = d.leave() // the first error is returned
			return err
		}
		d.consumers = append(d.consumers, &consumer{from: from, delays: newHistogram()})
	}
	return nil
}

// leave closes the consumers once their finishes were confirmed. It returns the first failure of a
// consumer.
func (d *drain) leave() (failed error) {
	for _, c := range d.consumers {
		failed = cmp.Or(failed, c.from.leave())
	}
	return failed
}

// run consumes until one of the limits is reached, or the context ends. It returns the failure of
// a consumer.
func (d *drain) run(ctx context.Context) error {
	if d.o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.o.duration)
		defer cancel()
	}
	running, stop := context.WithCancel(context.Background())
	defer stop()
	var reading sync.WaitGroup
	for _, c := range d.consumers {
		reading.Go(func() {
			defer stop() // the others continue at most until the next limit
			for m := range c.from.consumer.Messages(c.from.ctx) {
				d.receive(c, m)
			}
		})
	}
	d.wait(ctx, running)
	err := d.leave()
	reading.Wait()
	return err
}

// wait returns when the run has ended.
func (d *drain) wait(ctx, running context.Context) {
	idle := time.NewTicker(d.o.idle)
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
func (d *drain) receive(by *consumer, m *client.Message) {
	sent, ours := d.stamp.get(m.Body)
	if d.stamp.run != 0 && !ours {
		_ = m.Finish()
		return
	}
	d.seen.Add(1)
	if d.o.messages > 0 {
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
		by.delays.record(now.Sub(sent))
	}
	by.counts.messages++
	by.counts.bytes += int64(len(m.Body))
	if m.Attempts > 1 {
		by.counts.redelivered++
	}
	_ = m.Finish()
}

// sum adds up the consumers after run has returned.
func (d *drain) sum() (counts, time.Duration, histogram) {
	var total counts
	var first, last time.Time
	delays := newHistogram()
	for _, c := range d.consumers {
		total.add(c.counts)
		delays.merge(c.delays)
		if !c.first.IsZero() && (first.IsZero() || c.first.Before(first)) {
			first = c.first
		}
		if c.last.After(last) {
			last = c.last
		}
	}
	return total, last.Sub(first), delays
}

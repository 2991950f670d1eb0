package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/nsqclient"
)

// drainOptions say what is consumed.
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
		return about(benchSub(cmd, g, o, at.topic), at.topic, "")
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
	f.IntVar(&o.consumers, "consumers", 1, "number of consuming connections")
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
	d := newDrain(o, stamp{})
	from := d.subscribers(cmd, g, topic)
	if err := from.open(ctx, o.consumers); err != nil {
		return err
	}
	if err := d.run(ctx, from); err != nil {
		return err
	}
	total, took, _ := d.sum()
	return g.showReport(cmd, benchReport{Topic: topic, Channel: o.channel, Consume: newThroughput(total, took)}, nil)
}

// drain consumes on several connections.
type drain struct {
	o         drainOptions
	stamp     stamp
	left      atomic.Int64 // of o.messages
	seen      atomic.Int64 // messages, to notice that none come
	full      chan struct{}
	consumers []*consumer
}

// consumer is what one connection consumed. Its fields belong to the
// connection's goroutine until that has ended.
type consumer struct {
	counts      counts
	delays      histogram
	first, last time.Time
}

func newDrain(o drainOptions, s stamp) *drain {
	d := &drain{o: o, stamp: s, full: make(chan struct{})}
	d.left.Store(o.messages)
	return d
}

// subscribers returns where a topic is consumed from. They are not connected yet.
func (d *drain) subscribers(cmd *cobra.Command, g *globals, topic string) *subscribers {
	return &subscribers{
		finder: finder{g, topic, d.o.tcp, cmd.ErrOrStderr()}, channel: d.o.channel, options: clientOptions(g),
		ready: func(c *nsqclient.Conn) int {
			if most := c.MaxReady(); most > 0 {
				return min(d.o.ready, most)
			}
			return d.o.ready
		},
	}
}

// run consumes until one of the limits is reached, or the context ends. It
// returns what made a connection fail.
func (d *drain) run(ctx context.Context, from *subscribers) error {
	if d.o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.o.duration)
		defer cancel()
	}
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	var reading sync.WaitGroup
	for i := range from.count() {
		consumer := &consumer{delays: newHistogram()}
		d.consumers = append(d.consumers, consumer)
		reading.Go(func() {
			if err := from.run(running, i, func(c *nsqclient.Conn, m nsqclient.Message) { d.receive(c, consumer, m) }); err != nil {
				stop(err)
			}
		})
	}
	d.wait(ctx, running)
	from.leave() // the last messages are finished before we go
	timeout := time.AfterFunc(leaveTimeout, func() { stop(errMeasured) })
	reading.Wait()
	timeout.Stop()
	stop(errMeasured)
	if cause := context.Cause(running); !errors.Is(cause, errMeasured) {
		return cause
	}
	return nil
}

// wait returns when the run is over.
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

// receive counts a message and finishes it. What comes beyond the limit goes back;
// what is not of the run that is measured is finished and not counted.
func (d *drain) receive(c *nsqclient.Conn, by *consumer, m nsqclient.Message) {
	sent, ours := d.stamp.get(m.Body)
	if d.stamp.run != 0 && !ours {
		c.Finish(m.ID)
		return
	}
	d.seen.Add(1)
	if d.o.messages > 0 {
		left := d.left.Add(-1)
		if left < 0 {
			c.Requeue(m.ID, 0)
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
	c.Finish(m.ID)
}

// sum adds up the consumers, once run has returned.
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

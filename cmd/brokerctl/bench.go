package main

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/measure"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/internal/workload"
	"github.com/brokerd/brokerd/pkg/units"
)

func newBenchCommand(g *globals) *cobra.Command {
	return newGroup("bench", "Measure publish and delivery performance",
		newBenchPubCommand(g), newBenchSubCommand(g), newBenchE2ECommand(g))
}

// loadOptions define the published load.
type loadOptions struct {
	messages  int64
	duration  time.Duration
	size      units.Size
	batch     int
	window    int
	producers int
	rate      float64
	tcp       []string
}

func (o *loadOptions) addFlags(cmd *cobra.Command, batch, window int) {
	f := cmd.Flags()
	f.Int64Var(&o.messages, "messages", 100_000, "publish `N` messages, unless --duration is set")
	durationVar(f, &o.duration, "duration", "publish for this long")
	o.size = 128
	sizeVar(f, &o.size, "size", "message `SIZE`")
	f.IntVar(&o.batch, "batch", batch, "messages per batch")
	f.IntVar(&o.window, "window", window, "outstanding batches per producer")
	f.IntVar(&o.producers, "producers", 1, "number of publishing connections")
	f.Float64Var(&o.rate, "rate", 0, "total rate in `N` messages per second; 0 means unlimited")
	f.StringArrayVar(&o.tcp, "tcp", nil, "connect to this `HOST:PORT` (default: advertised by the topic's leaders)")
}

// maxLoadSize is the highest max-msg-size of a broker.
const maxLoadSize units.Size = 64 << 20

func (o *loadOptions) validate(minSize units.Size) error {
	const maxBatch = 100_000
	switch {
	case o.messages < 1 && o.duration == 0:
		return usageError("--messages or --duration must be above 0")
	case o.messages < 0:
		return usageError("--messages must not be below 0")
	case !(o.rate >= 0) || math.IsInf(o.rate, 0): // NaN is neither
		return usageError("--rate must not be below 0, and be a number")
	case o.size < minSize:
		return usageError("--size must be at least %d", minSize)
	case o.size > maxLoadSize:
		return usageError("--size must be at most %v, the largest message that a broker takes", maxLoadSize)
	case o.batch < 1 || o.batch > maxBatch:
		return usageError("--batch must be from 1 to %d", maxBatch)
	case o.window < 1 || o.producers < 1:
		return usageError("--window and --producers must be above 0")
	}
	return nil
}

// load returns the options of a load whose messages have a stamp.
func (o *loadOptions) load(s measure.Stamp) workload.LoadOptions {
	w := workload.LoadOptions{
		Messages: o.messages, Duration: o.duration, Size: int64(o.size), Batch: o.batch, Window: o.window, Producers: o.producers, Rate: o.rate, Stamp: s,
	}
	if o.duration > 0 {
		w.Messages = 0
	}
	return w
}

// benchReport is the result of a benchmark. Unmeasured parts are omitted.
type benchReport struct {
	Topic        string               `json:"topic"`
	Channel      string               `json:"channel,omitempty"`
	Publish      *measure.Throughput  `json:"publish,omitempty"`
	Consume      *measure.Throughput  `json:"consume,omitempty"`
	PubToAck     *measure.Percentiles `json:"pub_to_ack,omitempty"`     // of batches
	PubToDeliver *measure.Percentiles `json:"pub_to_deliver,omitempty"` // of messages
}

func throughputText(t *measure.Throughput, did string) string {
	text := fmt.Sprintf("%s %s in %s (%s/s, %s/s)", did, count(t.Messages), latency(time.Duration(t.Seconds*float64(time.Second))),
		metric(t.MessagesPerSecond), words.Size(int64(t.BytesPerSecond)))
	if t.Failed > 0 {
		text += fmt.Sprintf(", %s failed", count(t.Failed))
	}
	if t.Redelivered > 0 {
		text += fmt.Sprintf(", %s of them redelivered", count(t.Redelivered))
	}
	return text
}

// metric formats a rate: 950, 20.0k, 1.25M.
func metric(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2fM", v/1e6)
	case v >= 1e3:
		return fmt.Sprintf("%.1fk", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

// text formats the report for people.
func (r benchReport) text(p *output.Page) {
	if r.Publish != nil {
		p.Line("%s", throughputText(r.Publish, "published"))
	}
	if r.Consume != nil {
		p.Line("%s", throughputText(r.Consume, "consumed"))
	}
	t := output.NewTable("LATENCY", "P50", "P90", "P99", "P99.9", "MAX", "MEAN")
	for _, l := range []struct {
		name string
		of   *measure.Percentiles
	}{{"pub→ack", r.PubToAck}, {"pub→deliver", r.PubToDeliver}} {
		if l.of != nil {
			t.Row(l.name, latency(l.of.P50), latency(l.of.P90), latency(l.of.P99), latency(l.of.P999), latency(l.of.Max), latency(l.of.Mean))
		}
	}
	p.Details(t)
}

// showReport prints a report. Failed messages make the result partial, or a failure if all failed.
func (g *globals) showReport(cmd *cobra.Command, r benchReport, cause error) error {
	if err := g.show(cmd, output.View{Object: r, Names: []string{r.Topic}, Text: r.text}); err != nil {
		return err
	}
	if r.Publish != nil && r.Publish.Failed > 0 {
		return partial(cmd.Context(), cause, plural(r.Publish.Messages, "message")+" acknowledged")
	}
	return nil
}

func newBenchPubCommand(g *globals) *cobra.Command {
	var o loadOptions
	cmd := acting(g, &cobra.Command{
		Use:   "pub TOPIC",
		Short: "Measure publish throughput and latency",
		Long: `Publish messages over the NSQ protocol and measure how fast they are acknowledged. The topic is
created if missing, and keeps the messages. For synchronous publishing use --batch 1 --window 1.`,
		Example: `  brokerctl bench pub load --messages 1000000 --batch 200
  brokerctl bench pub load --producers 16 --batch 1 --window 1 --duration 10s`,
	}, func(cmd *cobra.Command, at target) error {
		if err := o.validate(1); err != nil {
			return err
		}
		return benchPub(cmd, g, o, at.topic)
	})
	o.addFlags(cmd, 100, 8)
	return cmd
}

func benchPub(cmd *cobra.Command, g *globals, o loadOptions, topic string) error {
	ctx := cmd.Context()
	found, err := overNSQ(cmd, g, topic, o.tcp, true)
	if err != nil {
		return err
	}
	load, err := workload.OpenLoad(ctx, found, o.load(measure.Stamp{}))
	if err != nil {
		return err
	}
	published, failed := load.Run(ctx)
	if published.Counts.Messages == 0 && failed != nil {
		return failed
	}
	return g.showReport(cmd, benchReport{Topic: topic, Publish: published.Throughput(), PubToAck: published.Latency.Percentiles()}, failed)
}

type e2eOptions struct {
	load    loadOptions
	channel string
	idle    time.Duration
}

func newBenchE2ECommand(g *globals) *cobra.Command {
	var o e2eOptions
	cmd := acting(g, &cobra.Command{
		Use:   "e2e TOPIC",
		Short: "Measure end-to-end latency",
		Long: `Publish and consume at the same time over the NSQ protocol, and measure the latency of each message,
from when it was due to its acknowledgement and to its delivery. The topic is created if missing.`,
		Example: `  brokerctl bench e2e load --rate 2000 --duration 10s`,
	}, func(cmd *cobra.Command, at target) error {
		switch err := o.load.validate(measure.MinBody); {
		case err != nil:
			return err
		case o.idle == 0:
			return usageError("--idle must be above 0")
		case o.channel == "":
			return usageError("--channel must not be empty")
		}
		return benchE2E(cmd, g, o, at.topic)
	})
	o.load.addFlags(cmd, 1, 64)
	cmd.Flags().StringVar(&o.channel, "channel", "bench#ephemeral", "`CHANNEL` to consume from")
	o.idle = 2 * time.Second
	durationVar(cmd.Flags(), &o.idle, "idle", "stop after this long without a message")
	return cmd
}

// drain returns the options of the consumers of a load.
func (o *e2eOptions) drain(l workload.LoadOptions) workload.DrainOptions {
	const ready = 2000
	return workload.DrainOptions{Channel: o.channel, Messages: l.Messages, Idle: o.idle, Ready: ready, Stamp: l.Stamp}
}

func benchE2E(cmd *cobra.Command, g *globals, o e2eOptions, topic string) error {
	ctx := cmd.Context()
	found, err := overNSQ(cmd, g, topic, o.load.tcp, true)
	if err != nil {
		return err
	}
	options := o.load.load(measure.NewStamp())
	d, err := workload.OpenDrain(ctx, found, o.drain(options))
	if err != nil {
		return err
	}
	load, err := workload.OpenLoad(ctx, found, options)
	if err != nil {
		_ = d.Close() // the first error is returned
		return err
	}
	var consuming sync.WaitGroup
	var consumeErr error
	draining, enough := context.WithCancel(ctx)
	defer enough()
	consuming.Go(func() { consumeErr = d.Run(draining) })
	published, failed := load.Run(ctx)
	if published.Counts.Messages == 0 {
		enough()
	}
	consuming.Wait()
	if published.Counts.Messages == 0 && failed != nil {
		return failed
	}
	if consumeErr != nil {
		return consumeErr
	}
	consumed := d.Result()
	return g.showReport(cmd, benchReport{
		Topic: topic, Channel: o.channel,
		Publish: published.Throughput(), PubToAck: published.Latency.Percentiles(),
		Consume: consumed.Throughput(), PubToDeliver: consumed.Latency.Percentiles(),
	}, failed)
}

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
	f := cmd.Flags()
	f.StringVar(&o.channel, "channel", "bench", "`CHANNEL` to consume from, created if missing")
	f.Int64Var(&o.messages, "messages", 0, "stop after `N` messages; 0 means no limit")
	durationVar(f, &o.duration, "duration", "stop after this long; 0 means no limit")
	o.idle = 2 * time.Second
	durationVar(f, &o.idle, "idle", "stop after this long without a message")
	f.IntVar(&o.consumers, "consumers", 1, "number of consumers, each with a connection to every leader")
	f.IntVar(&o.ready, "window", 1000, "messages in flight per consumer")
	f.StringArrayVar(&o.tcp, "tcp", nil, "connect to this `HOST:PORT` (default: advertised by the topic's leaders)")
	return cmd
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
	found, err := overNSQ(cmd, g, topic, o.tcp, false)
	if err != nil {
		return err
	}
	d, err := workload.OpenDrain(ctx, found, workload.DrainOptions{
		Channel: o.channel, Messages: o.messages, Duration: o.duration, Idle: o.idle, Consumers: o.consumers, Ready: o.ready,
	})
	if err != nil {
		return err
	}
	if err := d.Run(ctx); err != nil {
		return err
	}
	consumed := d.Result()
	return g.showReport(cmd, benchReport{Topic: topic, Channel: o.channel, Consume: consumed.Throughput()}, nil)
}

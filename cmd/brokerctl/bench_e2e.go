package main

import (
	"context"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

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
		if err := o.load.validate(minE2EBody); err != nil {
			return err
		}
		return benchE2E(cmd, g, o, at.topic)
	})
	o.addFlags(cmd)
	return cmd
}

func (o *e2eOptions) addFlags(cmd *cobra.Command) {
	o.load.addFlags(cmd, 1, 64)
	cmd.Flags().StringVar(&o.channel, "channel", "bench#ephemeral", "`CHANNEL` to consume from")
	o.idle = 2 * time.Second
	durationVar(cmd.Flags(), &o.idle, "idle", "stop after this long without a message")
}

// drain returns the options of the consumers: the published messages, as far as known.
func (o *e2eOptions) drain() drainOptions {
	const ready = 2000
	d := drainOptions{channel: o.channel, idle: o.idle, ready: ready, tcp: o.load.tcp}
	if o.load.duration == 0 {
		d.messages = o.load.messages
	}
	return d
}

func benchE2E(cmd *cobra.Command, g *globals, o e2eOptions, topic string) error {
	ctx := cmd.Context()
	target, err := targetOf(cmd, g, topic, o.load.tcp, true)
	if err != nil {
		return err
	}
	s := newStamp()
	d := newDrain(o.drain(), s)
	if err := d.open(ctx, target); err != nil {
		return err
	}
	load := &load{target: target, o: o.load, stamp: s}
	if err := load.open(ctx); err != nil {
		_ = d.leave() // the first error is returned
		return err
	}
	var consuming sync.WaitGroup
	var consumeErr error
	draining, enough := context.WithCancel(ctx)
	defer enough()
	consuming.Go(func() { consumeErr = d.run(draining) })
	published, acks, took, failed := load.run(ctx)
	if published.messages == 0 {
		enough()
	}
	consuming.Wait()
	if published.messages == 0 && failed != nil {
		return failed
	}
	if consumeErr != nil {
		return consumeErr
	}
	consumed, consumedIn, delays := d.sum()
	return g.showReport(cmd, benchReport{
		Topic: topic, Channel: o.channel,
		Publish: newThroughput(published, took), PubToAck: acks.percentiles(),
		Consume: newThroughput(consumed, consumedIn), PubToDeliver: delays.percentiles(),
	}, failed)
}

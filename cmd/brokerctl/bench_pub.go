package main

import (
	"github.com/spf13/cobra"
)

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
	target, err := targetOf(cmd, g, topic, o.tcp, true)
	if err != nil {
		return err
	}
	load := &load{target: target, o: o}
	if err := load.open(ctx); err != nil {
		return err
	}
	total, acks, took, failed := load.run(ctx)
	if total.messages == 0 && failed != nil {
		return failed
	}
	return g.showReport(cmd, benchReport{Topic: topic, Publish: newThroughput(total, took), PubToAck: acks.percentiles()}, failed)
}

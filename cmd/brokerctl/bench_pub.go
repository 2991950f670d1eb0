package main

import (
	"github.com/spf13/cobra"
)

func newBenchPubCommand(g *globals) *cobra.Command {
	var o loadOptions
	cmd := &cobra.Command{
		Use:   "pub TOPIC",
		Short: "Measure publishing",
		Long: `Publish messages over the NSQ protocol and measure how fast they are acknowledged. The topic is
created if it is not there, and keeps the messages. Synchronous publishing is --batch 1 --window 1.`,
		Example: `  brokerctl bench pub load --messages 1000000 --batch 200
  brokerctl bench pub load --producers 16 --batch 1 --window 1 --duration 10s`,
		Args:              exactArgs("a TOPIC"),
		ValidArgsFunction: completeNames(g, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(1); err != nil {
				return err
			}
			return benchPub(cmd, g, o, args[0])
		},
	}
	o.addFlags(cmd, 100, 8)
	return cmd
}

func benchPub(cmd *cobra.Command, g *globals, o loadOptions, topic string) error {
	ctx := cmd.Context()
	target, err := benchTopic(cmd, g, topic, o.tcp)
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

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

type tailOptions struct {
	n       int
	from    string
	tcp     []string
	timeout time.Duration
}

// pollInterval is how often a topic is asked for new messages.
const pollInterval = 200 * time.Millisecond

func newMessageTailCommand(g *globals) *cobra.Command {
	var o tailOptions
	cmd := acting(g, &cobra.Command{
		Use:   "tail TOPIC[/CHANNEL]",
		Short: "Print messages as they come",
		Long: `Print messages as they come, until it is interrupted or N were printed.

Of a TOPIC the log itself is read: nothing is consumed. It begins behind the newest message;
with -n, at the last N messages that there are.

Of a TOPIC/CHANNEL the messages are consumed: each is finished once it is printed, and other
consumers of the channel do not get it. A channel that is not there is created; one named
NAME#ephemeral goes when the command ends.

The body is printed alone, a line each; -o wide adds place, id, time and attempts, -o json
prints an object a line.`,
		Example: `  brokerctl message tail orders
  brokerctl message tail orders/debug#ephemeral -n 10 -o json`,
	}, func(cmd *cobra.Command, at target) error {
		if err := o.validate(at.channel); err != nil {
			return err
		}
		return about(tail(cmd, g, o, at.topic, at.channel), at.topic, "")
	})
	o.addFlags(cmd)
	return cmd
}

func (o *tailOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVarP(&o.n, "n", "n", 0, "end after `N` messages; 0: do not end")
	f.StringVar(&o.from, "from", "", "of a topic, begin at: start, end, or a sequence number `PLACE`")
	f.StringArrayVar(&o.tcp, "tcp", nil, "consume from this `HOST:PORT` (default: what the leaders of the topic advertise)")
	durationVar(f, &o.timeout, "msg-timeout", "have a message come again that was not printed for so long (default: the broker's)")
}

func (o *tailOptions) validate(channel string) error {
	switch {
	case o.n < 0:
		return usageError("-n must not be below 0")
	case channel != "" && o.from != "":
		return usageError("--from is for a topic; a channel has its own place: see channel seek")
	}
	_, err := parseTailFrom(o.from)
	return err
}

// tail ends well when it is interrupted: that is how one leaves it.
func tail(cmd *cobra.Command, g *globals, o tailOptions, topic, channel string) error {
	var err error
	if channel == "" {
		err = tailTopic(cmd, g, o, topic)
	} else {
		err = tailChannel(cmd, g, o, topic, channel)
	}
	if isInterrupted(cmd.Context()) {
		return nil
	}
	return err
}

// pause waits for a while, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

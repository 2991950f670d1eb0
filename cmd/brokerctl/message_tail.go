package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/header"
)

type tailOptions struct {
	n       int
	from    string
	tcp     []string
	timeout time.Duration
	filter  string
	tag     string
}

// redialPause is the delay between two attempts to connect to a node.
const redialPause = 300 * time.Millisecond

// chosen returns the filter of a topic's messages; "": all messages.
func (o *tailOptions) chosen() string {
	switch {
	case o.tag == "":
		return o.filter
	case o.filter == "":
		return "tag == " + strconv.Quote(o.tag)
	}
	return "tag == " + strconv.Quote(o.tag) + " && (" + o.filter + ")"
}

// pollInterval is how often a topic is polled for new messages.
const pollInterval = 200 * time.Millisecond

func newMessageTailCommand(g *globals) *cobra.Command {
	var o tailOptions
	cmd := acting(g, &cobra.Command{
		Use:   "tail TOPIC[/CHANNEL]",
		Short: "Print messages as they arrive",
		Long: `Print messages as they arrive, until interrupted or until N were printed.

For a TOPIC, the log itself is read: nothing is consumed. It starts after the newest message, or
with -n at the last N messages.

For a TOPIC/CHANNEL, messages are consumed: each is finished once it is printed, and other
consumers of the channel do not receive it. A missing channel is created; one named
NAME#ephemeral is deleted when the command ends.

With --filter, the nodes choose messages of a TOPIC, and -n stops after N of them. With --tag, messages
with this tag are chosen; for a TOPIC/CHANNEL, the command consumes as a consumer with that tag.

Only the body is printed, one line per message; -o wide adds partition, id, time and attempts,
-o json prints one object per line.`,
		Example: `  brokerctl message tail orders
  brokerctl message tail orders --filter 'header.type == "order" && size > 1000' --from start
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
	f.IntVarP(&o.n, "n", "n", 0, "stop after `N` messages; 0 means no limit")
	f.StringVar(&o.from, "from", "", "for a topic, `POSITION` to start at: start, end or a sequence number")
	f.StringArrayVar(&o.tcp, "tcp", nil, "consume from this `HOST:PORT` (default: advertised by the topic's leaders)")
	filterVar(f, &o.filter, "messages of a topic")
	f.StringVar(&o.tag, "tag", "", "only messages with this `TAG`")
	durationVar(f, &o.timeout, "msg-timeout", "redeliver a message not printed within this time (default: the broker's message timeout)")
}

func (o *tailOptions) validate(channel string) error {
	switch {
	case o.n < 0:
		return usageError("-n must not be below 0")
	case channel != "" && o.filter != "":
		return usageError("--filter applies to topics only; a channel has its own: brokerctl channel create --filter")
	case o.tag != "" && !header.ValidTag(o.tag):
		return usageError("--tag is %q, must be up to %d letters, digits, _ and -", o.tag, header.MaxTag)
	case channel != "" && o.from != "":
		return usageError("--from applies to topics only; to move a channel, use channel seek")
	}
	_, err := parseTailFrom(o.from)
	return err
}

// tail succeeds when it is interrupted, which is the usual way to end it.
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

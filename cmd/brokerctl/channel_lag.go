package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newChannelLagCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:   "lag [TOPIC[/CHANNEL]]",
		Short: "Show the lag of channels, and when they will have caught up",
		Long: `Show the lag of all channels, of the channels of one topic, or of one channel.

OLDEST is the exact age of the oldest unfinished message. IN/s and OUT/s are the rates of messages
that arrived and were finished in the last minute; -o wide adds the last 15 minutes. DRAINS IN is
the time until no message waits at these rates: never if no more messages leave than arrive. If no
message waits but the oldest one in flight is older than 10s, it is the time until the messages in
flight are finished: never if none is finished.`,
	}, func(cmd *cobra.Command, at target) error {
		return answer(cmd, g, func(ctx context.Context) (*api.Lag, error) { return g.client.Insights.Lag(ctx, at.topic, at.channel) }, lagView)
	})
}

func lagView(lag *api.Lag) view {
	name := func(c api.ChannelLag) string { return c.Topic + "/" + c.Channel }
	t := newTable("TOPIC", "CHANNEL", "DEPTH", "OLDEST", "IN/s", "OUT/s", "DRAINS IN", "+IN/s 15m", "+OUT/s 15m", "+IN-FLIGHT", "+DEFERRED", "+STATE")
	return listView(lag, lag.Channels, name, t, func(c api.ChannelLag) []any {
		return []any{
			c.Topic, c.Channel, count(c.Depth), age(milliseconds(c.OldestAgeMS)), perSecond(c.InPerS), perSecond(c.OutPerS), drainsIn(c.DrainsInMS),
			perSecond(c.InPerS15M), perSecond(c.OutPerS15M), count(c.InFlight), count(c.Deferred), channelState(c.Paused, "none", false),
		}
	}, func(p *page) {
		p.missing(missingOf(lag.Channels, func(c api.ChannelLag) []string { return c.MissingNodes }))
		var offline []string
		for _, c := range lag.Channels {
			if c.OfflinePartitions > 0 {
				offline = append(offline, name(c))
			}
		}
		if len(offline) > 0 {
			p.line("")
			p.line("warning: partitions without a leader are not included: of %s", list(offline))
		}
	})
}

func milliseconds(n int64) api.Duration { return api.Duration(time.Duration(n) * time.Millisecond) }

// perSecond formats a rate: 0, 0.3, 12, 4,110.
func perSecond(rate float64) string {
	switch {
	case rate <= 0:
		return "0"
	case rate < 0.1:
		return "<0.1"
	case rate < 10:
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return count(int64(rate + 0.5))
}

// drainsIn formats the time until no message waits.
func drainsIn(ms *int64) string {
	switch {
	case ms == nil:
		return "never"
	case *ms == 0:
		return "now"
	}
	return age(milliseconds(*ms))
}

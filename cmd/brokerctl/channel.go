package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newChannelCommand(g *globals) *cobra.Command {
	return newGroup("channel", "Manage channels",
		newChannelCreateCommand(g), newChannelAlterCommand(g), newChannelListCommand(g), newChannelDescribeCommand(g), newChannelExplainCommand(g), newChannelLagCommand(g),
		newChannelUndoCommand(g), newChannelRestoreCommand(g), newChannelSkipCommand(g), newChannelPauseCommand(g),
		newChannelResumeCommand(g), newChannelEmptyCommand(g), newChannelDeleteCommand(g), newChannelSeekCommand(g))
}

// channelColumns are the columns of a list of channels.
var channelColumns = []string{"CHANNEL", "DEPTH", "IN-FLIGHT", "DEFERRED", "OLDEST", "CONSUMERS", "STATE"}

// channelRow returns the cells of these columns.
func channelRow(c api.ChannelSummary) []any {
	return []any{
		c.Name, count(c.Depth), count(c.InFlight), count(c.Deferred), age(c.OldestAge), c.Consumers,
		channelState(c.Paused, c.Order, c.Ephemeral),
	}
}

// channelTable lists the channels of one topic.
func channelTable(p *output.Page, channels []api.ChannelSummary) {
	t := output.NewTable(channelColumns...)
	for _, c := range channels {
		t.Row(channelRow(c)...)
	}
	p.Table(t)
}

func channelState(paused bool, order string, ephemeral bool) string {
	state := "active"
	if paused {
		state = "paused"
	}
	switch order {
	case "strict":
		state += ",ordered"
	case "key":
		state += ",ordered by key"
	}
	if ephemeral {
		state += ",ephemeral"
	}
	return state
}

// channelView shows a channel, its consumers and its positions.
func channelView(c *api.Channel) output.View {
	return output.View{
		Object: c,
		Names:  []string{c.Topic + "/" + c.Name},
		Text: func(p *output.Page) {
			channelTable(p, []api.ChannelSummary{{
				Name: c.Name, Depth: c.Depth, InFlight: c.InFlight, Deferred: c.Deferred, Consumers: len(c.Consumers),
				Paused: c.Paused, Ordered: c.Ordered, Order: c.Order, Ephemeral: c.Ephemeral, OldestAge: c.OldestAge,
			}})
			p.Line("")
			totals := output.NewTable("DELIVERED", "FINISHED", "REQUEUED", "TIMED OUT", "EXPIRED")
			totals.Row(count(c.DeliveredTotal), count(c.FinishedTotal), count(c.RequeuedTotal), count(c.TimedOutTotal), count(c.ExpiredTotal))
			p.Table(totals)
			p.Line("")
			policyTable(p, c)
			p.Line("")
			filterTable(p, c)
			places := output.NewTable("P", "LEADER", "CONFIRMED", "LAG")
			for _, q := range c.Partitions {
				places.Row(q.Partition, q.Leader, count(q.Confirmed), count(q.Lag))
			}
			p.Table(places)
			keyBlockTable(p, c.Partitions)
			suspectTable(p, c.Partitions)
			spinningTable(p, c.Partitions)
			consumerTable(p, c.Consumers)
			missingNote(p, c.MissingNodes)
		},
	}
}

// keyBlockTable lists the keys that block messages.
func keyBlockTable(p *output.Page, partitions []api.ChannelPartition) {
	t := output.NewTable("P", "BLOCKED KEY", "AT SEQ", "WHICH IS", "WAITING", "OF ALL KEYS", "+FULL")
	for _, q := range partitions {
		if b := q.KeyBlocked; b != nil {
			t.Row(q.Partition, strconv.Quote(b.Key), count(b.Seq), strings.ReplaceAll(b.State, "_", " "), count(int64(b.Waiting)), count(int64(b.Tracked)), b.Full)
		}
	}
	p.Details(t)
}

// suspectTable lists the messages that are delivered one at a time.
func suspectTable(p *output.Page, partitions []api.ChannelPartition) {
	t := output.NewTable("P", "SUSPECTS", "AT SEQ", "FAILED ALONE", "+IN FLIGHT")
	for _, q := range partitions {
		if x := q.Suspects; x != nil {
			t.Row(q.Partition, count(int64(x.Count)), count(x.Seq), count(int64(x.Failed)), x.InFlight)
		}
	}
	p.Details(t)
}

// spinningTable lists the messages that consumers requeue immediately.
func spinningTable(p *output.Page, partitions []api.ChannelPartition) {
	t := output.NewTable("P", "SPINNING SEQ", "REQUEUES/S")
	for _, q := range partitions {
		for _, m := range q.Spinning {
			t.Row(q.Partition, count(m.Seq), count(int64(m.PerSecond)))
		}
	}
	p.Details(t)
}

func consumerTable(p *output.Page, consumers []api.Consumer) {
	t := output.NewTable("CONSUMER", "CLIENT", "USER AGENT", "READY", "IN-FLIGHT", "FINISHED", "+HOST", "+DELIVERED", "+REQUEUED", "+TIMED OUT")
	for _, c := range consumers {
		t.Row(c.Address, c.ClientID, c.UserAgent, count(c.Ready), count(c.InFlight), count(c.FinishedTotal),
			c.Hostname, count(c.DeliveredTotal), count(c.RequeuedTotal), count(c.TimedOutTotal))
	}
	p.Details(t)
}

func newChannelListCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:     "list [TOPIC]",
		Aliases: []string{"ls"},
		Short:   "List the channels of a topic, or of all topics",
	}, func(cmd *cobra.Command, at target) error {
		if at.topic == "" {
			return answer(cmd, g, g.client.Topics, allChannelsView)
		}
		ask := func(ctx context.Context) ([]api.ChannelSummary, error) { return g.client.Channels(ctx, at.topic) }
		return answer(cmd, g, ask, func(channels []api.ChannelSummary) output.View { return channelsView(at.topic, channels) })
	})
}

func channelsView(topic string, channels []api.ChannelSummary) output.View {
	missing := words.UnionOf(channels, func(c api.ChannelSummary) []string { return c.MissingNodes })
	return output.List(api.ChannelList{Topic: topic, Channels: channels, MissingNodes: missing}, channels,
		func(c api.ChannelSummary) string { return topic + "/" + c.Name },
		output.NewTable(channelColumns...), channelRow, func(p *output.Page) { missingNote(p, missing) })
}

func allChannelsView(topics []api.Topic) output.View {
	all := api.ChannelsOf(topics)
	return output.List(all, all.Channels, func(c api.TopicChannel) string { return c.Topic + "/" + c.Name },
		output.NewTable(append([]string{"TOPIC"}, channelColumns...)...),
		func(c api.TopicChannel) []any { return append([]any{c.Topic}, channelRow(c.ChannelSummary)...) },
		func(p *output.Page) { missingNote(p, all.MissingNodes) })
}

func newChannelDescribeCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:     "describe TOPIC/CHANNEL",
		Aliases: []string{"info"},
		Short:   "Show a channel, its positions and its consumers",
	}, func(cmd *cobra.Command, at target) error {
		return answer(cmd, g, func(ctx context.Context) (*api.Channel, error) { return g.client.Channel(ctx, at.topic, at.channel) }, channelView)
	})
}

func newChannelPauseCommand(g *globals) *cobra.Command {
	return g.changing(&cobra.Command{
		Use:   "pause TOPIC/CHANNEL",
		Short: "Stop delivery to the consumers of a channel",
	}, "paused", func(ctx context.Context, at *target) error {
		return g.client.PauseChannel(ctx, at.topic, at.channel, true)
	})
}

func newChannelResumeCommand(g *globals) *cobra.Command {
	return g.changing(&cobra.Command{
		Use:     "resume TOPIC/CHANNEL",
		Aliases: []string{"unpause"},
		Short:   "Resume delivery to the consumers of a channel",
	}, "resumed", func(ctx context.Context, at *target) error {
		return g.client.PauseChannel(ctx, at.topic, at.channel, false)
	})
}

// undoWarning says whether what is done to a channel can be undone, and by which command: positions in ephemeral
// channels and topics are not saved.
func undoWarning(doing, undo string) func(target) string {
	return func(at target) string {
		if strings.Contains(at.text, "#ephemeral") {
			return fmt.Sprintf("%s channel %s cannot be undone", doing, at)
		}
		return fmt.Sprintf("%s channel %s can be undone for a limited time only (brokerctl channel %s %[2]s)", doing, at, undo)
	}
}

func newChannelEmptyCommand(g *globals) *cobra.Command {
	return g.confirming(undoWarning("emptying", "undo"), g.changing(&cobra.Command{
		Use:   "empty TOPIC/CHANNEL",
		Short: "Discard all messages of a channel",
	}, "emptied", func(ctx context.Context, at *target) error { return g.client.EmptyChannel(ctx, at.topic, at.channel) }))
}

func newChannelDeleteCommand(g *globals) *cobra.Command {
	return g.confirming(undoWarning("deleting", "restore"), g.changing(&cobra.Command{
		Use:     "delete TOPIC/CHANNEL",
		Aliases: []string{"rm"},
		Short:   "Delete a channel and disconnect its consumers",
	}, "deleted", func(ctx context.Context, at *target) error {
		saved, err := g.client.DeleteChannel(ctx, at.topic, at.channel)
		if err == nil && len(saved.Unsaved) > 0 {
			at.unsaved = &saved.Unsaved
			fmt.Fprintf(g.env.stderr, "warning: %s\n", output.Unsaved(at.text, saved))
		}
		return err
	}))
}

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

func lagView(lag *api.Lag) output.View {
	name := func(c api.ChannelLag) string { return c.Topic + "/" + c.Channel }
	t := output.NewTable("TOPIC", "CHANNEL", "DEPTH", "OLDEST", "IN/s", "OUT/s", "DRAINS IN", "+IN/s 15m", "+OUT/s 15m", "+IN-FLIGHT", "+DEFERRED", "+STATE")
	return output.List(lag, lag.Channels, name, t, func(c api.ChannelLag) []any {
		return []any{
			c.Topic, c.Channel, count(c.Depth), age(milliseconds(c.OldestAgeMS)), perSecond(c.InPerS), perSecond(c.OutPerS), drainsIn(c.DrainsInMS),
			perSecond(c.InPerS15M), perSecond(c.OutPerS15M), count(c.InFlight), count(c.Deferred), channelState(c.Paused, "none", false),
		}
	}, func(p *output.Page) {
		missingNote(p, words.UnionOf(lag.Channels, func(c api.ChannelLag) []string { return c.MissingNodes }))
		var offline []string
		for _, c := range lag.Channels {
			if c.OfflinePartitions > 0 {
				offline = append(offline, name(c))
			}
		}
		if len(offline) > 0 {
			p.Line("")
			p.Line("warning: partitions without a leader are not included: of %s", list(offline))
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

func newChannelExplainCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:   "explain TOPIC/CHANNEL",
		Short: "Explain why a channel makes no progress",
		Long: `Report whether a channel makes progress, and what delays its messages.

The broker observes the channel for up to a second. Check the causes in the order in which they are listed.`,
	}, func(cmd *cobra.Command, at target) error {
		return answer(cmd, g, func(ctx context.Context) (*api.Explanation, error) {
			return g.client.ExplainChannel(ctx, at.topic, at.channel)
		}, explanationView)
	})
}

func explanationView(e *api.Explanation) output.View {
	return output.View{Object: e, Names: []string{e.Topic + "/" + e.Channel}, Text: func(p *output.Page) { explanation(p, e) }}
}

// explanation prints the result and the causes, in order.
func explanation(p *output.Page, e *api.Explanation) {
	verdict := "is moving"
	switch {
	case !e.Moving:
		verdict = "is not moving"
	case e.Ready+e.InFlight+e.Deferred == 0:
		verdict = "has nothing to deliver"
	}
	oldest := ""
	if e.OldestAgeMS > 0 {
		oldest = fmt.Sprintf(", the oldest for %v", age(api.Duration(time.Duration(e.OldestAgeMS)*time.Millisecond)))
	}
	p.Line("%s/%s %s: %s ready, %s in flight, %s deferred%s; consumers: %d", e.Topic, e.Channel, verdict,
		count(e.Ready), count(e.InFlight), count(e.Deferred), oldest, e.Consumers)
	for i, c := range e.Causes {
		p.Line("%2d. %s", i+1, c.What)
		p.Line("    -> %s", c.Do)
	}
	if !e.Moving && len(e.Causes) == 0 {
		p.Line("No cause found. Repeat the command, and see brokerctl channel describe.")
	}
	missingNote(p, e.MissingNodes)
}

package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

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
func channelTable(p *page, channels []api.ChannelSummary) {
	t := newTable(channelColumns...)
	for _, c := range channels {
		t.row(channelRow(c)...)
	}
	p.table(t)
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
func channelView(c *api.Channel) view {
	return view{
		object: c,
		names:  []string{c.Topic + "/" + c.Name},
		text: func(p *page) {
			channelTable(p, []api.ChannelSummary{{
				Name: c.Name, Depth: c.Depth, InFlight: c.InFlight, Deferred: c.Deferred, Consumers: len(c.Consumers),
				Paused: c.Paused, Ordered: c.Ordered, Order: c.Order, Ephemeral: c.Ephemeral, OldestAge: c.OldestAge,
			}})
			p.line("")
			totals := newTable("DELIVERED", "FINISHED", "REQUEUED", "TIMED OUT", "EXPIRED")
			totals.row(count(c.DeliveredTotal), count(c.FinishedTotal), count(c.RequeuedTotal), count(c.TimedOutTotal), count(c.ExpiredTotal))
			p.table(totals)
			p.line("")
			policyTable(p, c)
			p.line("")
			filterTable(p, c)
			places := newTable("P", "LEADER", "CONFIRMED", "LAG")
			for _, q := range c.Partitions {
				places.row(q.Partition, q.Leader, count(q.Confirmed), count(q.Lag))
			}
			p.table(places)
			keyBlockTable(p, c.Partitions)
			spinningTable(p, c.Partitions)
			consumerTable(p, c.Consumers)
			p.missing(c.MissingNodes)
		},
	}
}

// keyBlockTable lists the keys that block messages.
func keyBlockTable(p *page, partitions []api.ChannelPartition) {
	t := newTable("P", "BLOCKED KEY", "AT SEQ", "WHICH IS", "WAITING", "OF ALL KEYS", "+FULL")
	for _, q := range partitions {
		if b := q.KeyBlocked; b != nil {
			t.row(q.Partition, strconv.Quote(b.Key), count(b.Seq), strings.ReplaceAll(b.State, "_", " "), count(int64(b.Waiting)), count(int64(b.Tracked)), b.Full)
		}
	}
	p.details(t)
}

// spinningTable lists the messages that consumers requeue immediately.
func spinningTable(p *page, partitions []api.ChannelPartition) {
	t := newTable("P", "SPINNING SEQ", "REQUEUES/S")
	for _, q := range partitions {
		for _, m := range q.Spinning {
			t.row(q.Partition, count(m.Seq), count(int64(m.PerSecond)))
		}
	}
	p.details(t)
}

func consumerTable(p *page, consumers []api.Consumer) {
	t := newTable("CONSUMER", "CLIENT", "USER AGENT", "READY", "IN-FLIGHT", "FINISHED", "+HOST", "+DELIVERED", "+REQUEUED", "+TIMED OUT")
	for _, c := range consumers {
		t.row(c.Address, c.ClientID, c.UserAgent, count(c.Ready), count(c.InFlight), count(c.FinishedTotal),
			c.Hostname, count(c.DeliveredTotal), count(c.RequeuedTotal), count(c.TimedOutTotal))
	}
	p.details(t)
}

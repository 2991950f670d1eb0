package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newChannelUndoCommand(g *globals) *cobra.Command {
	var list bool
	cmd := acting(g, &cobra.Command{
		Use:   "undo TOPIC/CHANNEL",
		Short: "Undo the last seek, skip or empty of a channel",
		Long: `Undo the last seek, skip or empty of a channel: messages that were unfinished before it are
redelivered. The last 10 positions of a channel are kept for 7 days, and the messages for at least
24 hours, unless the disk is nearly full or the topic's size is limited. Repeat the command to undo
earlier changes. --list lists the changes that can be undone.`,
	}, func(cmd *cobra.Command, at target) error {
		if list {
			return answer(cmd, g, func(ctx context.Context) (*api.ChannelHistory, error) {
				return g.client.History.Saved(ctx, at.topic, at.channel)
			}, savedView)
		}
		return undoChannel(cmd, g, at, g.client.History.Undo)
	})
	cmd.Flags().BoolVar(&list, "list", false, "list the saved positions without changing anything")
	return cmd
}

func newChannelRestoreCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:   "restore TOPIC/CHANNEL",
		Short: "Restore a deleted channel at its last position",
		Long: `Restore a deleted channel at its last position. Its messages are kept for at least 24 hours, unless the disk
is nearly full or the topic's size is limited.`,
	}, func(cmd *cobra.Command, at target) error {
		return about(undoChannel(cmd, g, at, g.client.History.RestoreChannel), at.topic, "")
	})
}

func undoChannel(cmd *cobra.Command, g *globals, at target, undo func(context.Context, string, string) (*api.UndoneMove, error)) error {
	ask := func(ctx context.Context) (*api.UndoneMove, error) { return undo(ctx, at.topic, at.channel) }
	return answer(cmd, g, ask, func(u *api.UndoneMove) view {
		gone := int64(0)
		t := newTable("P", "CONFIRMED", "GONE")
		for _, q := range u.Partitions {
			t.row(q.Partition, count(q.Confirmed), count(q.Gone))
			gone += q.Gone
		}
		return view{object: u, lines: listing.Lines(u.Partitions), names: []string{u.Topic + "/" + u.Channel}, text: func(p *page) {
			if !g.quiet {
				p.line("%s of %s/%s at %s taken back", u.Verb, u.Topic, u.Channel, timeText(u.At))
				p.line("")
			}
			p.table(t)
			if gone > 0 {
				p.line("")
				p.line("warning: %s deleted since then cannot be redelivered", plural(gone, "message"))
			}
		}}
	})
}

func savedView(h *api.ChannelHistory) view {
	t := newTable("AT", "VERB", "P", "CONFIRMED", "MOVED TO")
	for _, s := range h.Saved {
		for _, q := range s.Partitions {
			t.row(timeText(s.At), s.Verb, q.Partition, count(q.Confirmed), count(q.MovedTo))
		}
	}
	return view{
		object: h,
		lines:  listing.Lines(h.Saved),
		names:  listing.Names(h.Saved, func(s api.SavedPosition) string { return timeText(s.At) }),
		text:   func(p *page) { p.table(t) },
	}
}

// skipOptions define what a channel skips.
type skipOptions struct {
	id        string
	partition int
	to        uint64
	sure      confirmation
}

func newChannelSkipCommand(g *globals) *cobra.Command {
	var o skipOptions
	cmd := acting(g, &cobra.Command{
		Use:   "skip TOPIC/CHANNEL",
		Short: "Skip one message, or all messages of a partition up to a sequence number",
		Long: `Skip one message of a channel (--id), like message finish, or all unfinished messages of a partition before
a message (--partition and --to), which channel undo can undo. Skipping more than 1,000 messages asks for
confirmation.`,
		Example: `  brokerctl channel skip orders/invoice --id 2b839aa76e4d64b7
  brokerctl channel skip orders/invoice --partition 0 --to 4881203`,
	}, func(cmd *cobra.Command, at target) error { return o.skip(cmd, g, at) })
	f := cmd.Flags()
	f.StringVar(&o.id, "id", "", "`ID` of the message, or its position PARTITION/SEQ")
	f.IntVar(&o.partition, "partition", 0, "the partition")
	f.Uint64Var(&o.to, "to", 0, "skip the messages before this `SEQ`")
	o.sure.addYes(cmd)
	return cmd
}

func (o *skipOptions) skip(cmd *cobra.Command, g *globals, at target) error {
	one, both := cmd.Flags().Changed("id"), cmd.Flags().Changed("partition") && cmd.Flags().Changed("to")
	switch {
	case one == (cmd.Flags().Changed("partition") || cmd.Flags().Changed("to")) || !one && !both:
		return usageError("give either --id or both --partition and --to")
	case o.partition < 0:
		return usageError("--partition must not be below 0")
	case one:
		return finishMessage(cmd, g, oneMessage{at.topic, at.channel}, o.id)
	}
	plan, err := query(cmd.Context(), g, func(ctx context.Context) (*api.MovePlan, error) {
		return g.client.History.PlanSeek(ctx, at.topic, at.channel, api.Seek{Offset: &o.to, Partition: &o.partition})
	})
	if err != nil {
		return err
	}
	if _, skipped := sumsOf(plan); skipped > surprising {
		if err := o.sure.askAfter(cmd, g, plural(skipped, "message")+" would be skipped; brokerctl channel undo "+at.String()+" takes that back", at.String()); err != nil {
			return err
		}
	}
	return answer(cmd, g, func(ctx context.Context) (*api.Channel, error) {
		return g.client.History.Skip(ctx, at.topic, at.channel, api.Skip{Partition: o.partition, To: o.to})
	}, channelView)
}

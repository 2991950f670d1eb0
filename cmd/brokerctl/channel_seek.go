package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/units"
)

type seekOptions struct {
	to        string
	partition int
	dryRun    bool
}

func newChannelSeekCommand(g *globals) *cobra.Command {
	var o seekOptions
	cmd := acting(g, &cobra.Command{
		Use:   "seek TOPIC/CHANNEL --to start|end|TIME|-2h|OFFSET",
		Short: "Move a channel to another position in its topic",
		Long: `Move a channel, in every partition, to the oldest retained message (start), past the newest one (end),
to the first message published at or after a time or age, or to an offset. Messages after the new position
are delivered, also if they were finished before; messages before it are skipped. A seek that redelivers
or skips more than 1,000 messages asks for confirmation. The previous position is saved: see channel undo.`,
		Example: `  brokerctl channel seek orders/invoice --to -2h --dry-run
  brokerctl channel seek orders/invoice --to 2026-11-21T06:00:00Z`,
	}, func(cmd *cobra.Command, at target) error {
		to, err := parseSeek("--to", o.to, g.env.now())
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("partition") {
			if o.partition < 0 {
				return usageError("--partition must not be below 0")
			}
			to.Partition = &o.partition
		}
		return seekOrAsk(cmd, g, o, at, to)
	})
	cmd.Flags().StringVar(&o.to, "to", "", "target `POSITION`: start, end, a time, an age such as -2h, or an offset")
	cmd.Flags().IntVar(&o.partition, "partition", 0, "only this partition (default: all)")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would happen without changing anything")
	return cmd
}

// parseSeek parses a position. An age counts from now.
func parseSeek(flag, text string, now time.Time) (api.Seek, error) {
	switch edge := api.SeekEdge(text); edge {
	case api.SeekStart, api.SeekEnd:
		return api.Seek{To: edge}, nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return api.Seek{Offset: &n}, nil
	}
	if ago, back := strings.CutPrefix(text, "-"); back {
		if d, err := units.ParseDuration(ago); err == nil {
			at := units.ClampTime(now.Add(-d).UTC())
			return api.Seek{Time: &at}, nil
		}
	}
	if at, err := units.ParseTime(text, now.Location()); err == nil {
		return api.Seek{Time: &at}, nil
	}
	return api.Seek{}, usageError("%s %q is not a valid position: use start, end, 2026-11-21T06:00:00Z, -2h or an offset", flag, text)
}

// surprising is the number of redelivered or skipped messages above which a seek asks for
// confirmation.
const surprising = 1000

// seekOrAsk moves a channel. It asks for confirmation if many messages would be redelivered or
// skipped.
func seekOrAsk(cmd *cobra.Command, g *globals, o seekOptions, at target, to api.Seek) error {
	plan, err := query(cmd.Context(), g, func(ctx context.Context) (*api.MovePlan, error) {
		return g.client.History.PlanSeek(ctx, at.topic, at.channel, to)
	})
	if err != nil {
		return err
	}
	if note := elsewhere(plan, "--to "+o.to, to, g.env.now()); note != "" && !g.quiet {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "note: "+note) // an error of stderr cannot be reported
	}
	if o.dryRun {
		return g.show(cmd, planView(plan))
	}
	again, skipped := sumsOf(plan)
	if max(again, skipped) > surprising {
		warning := fmt.Sprintf("%s would be redelivered and %s skipped; brokerctl channel undo %s takes that back", plural(again, "message"), count(skipped), at)
		if err := confirmAfter(cmd, g, warning, at.String()); err != nil {
			return err
		}
	}
	return answer(cmd, g, func(ctx context.Context) (*api.Channel, error) {
		return g.client.SeekChannel(ctx, at.topic, at.channel, to)
	}, channelView)
}

// elsewhere returns a note about the actual position of a seek to an offset outside the log of a
// partition, or to a time in the future; "" otherwise.
func elsewhere(plan *api.MovePlan, text string, to api.Seek, now time.Time) string {
	var targets []string
	future := to.Time != nil && to.Time.After(now)
	for _, p := range plan.Partitions {
		if future || to.Offset != nil && p.Target != *to.Offset {
			targets = append(targets, fmt.Sprintf("%s in partition %d", count(p.Target), p.Partition))
		}
	}
	if len(targets) == 0 {
		return ""
	}
	const most = 3
	if more := len(targets) - most; more > 0 {
		targets = append(targets[:most], fmt.Sprintf("and %d more", more))
	}
	why := "outside the log"
	if future {
		why = "in the future"
	}
	return fmt.Sprintf("%s is %s; the position is %s", text, why, strings.Join(targets, ", "))
}

func sumsOf(plan *api.MovePlan) (again, skipped int64) {
	for _, p := range plan.Partitions {
		again, skipped = again+p.Redelivered, skipped+p.Skipped
	}
	return again, skipped
}

func planView(plan *api.MovePlan) output.View {
	t := output.NewTable("P", "NOW", "TARGET", "WOULD REDELIVER", "WOULD SKIP")
	for _, s := range plan.Partitions {
		t.Row(s.Partition, count(s.Now), count(s.Target), count(s.Redelivered), count(s.Skipped))
	}
	return output.View{Object: plan, Lines: listing.Lines(plan.Partitions), Names: []string{plan.Topic + "/" + plan.Channel}, Text: func(p *output.Page) {
		p.Table(t)
		again, skipped := sumsOf(plan)
		p.Line("dry run: %s would be redelivered, %s skipped", plural(again, "message"), count(skipped))
	}}
}

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
	var replace, dry bool
	cmd := acting(g, &cobra.Command{
		Use:   "restore TOPIC/CHANNEL",
		Short: "Restore a deleted channel at its last position",
		Long: `Restore a deleted channel at its last position, with its settings. Its messages are kept for at least 24 hours,
unless the disk is nearly full or the topic's size is limited. Consumers that reconnect create the channel again, at
the end of the topic: --replace moves that channel to the position of the deleted one; channel undo reverts that.`,
	}, func(cmd *cobra.Command, at target) error {
		if dry {
			return answer(cmd, g, func(ctx context.Context) (*api.MovePlan, error) {
				return g.client.History.PlanRestoreChannel(ctx, at.topic, at.channel, replace)
			}, planView)
		}
		return undoChannel(cmd, g, at, func(ctx context.Context, topic, channel string) (*api.UndoneMove, error) {
			return g.client.History.RestoreChannel(ctx, topic, channel, replace)
		})
	})
	cmd.Flags().BoolVar(&replace, "replace", false, "also move a channel with the name that was created since")
	planVar(cmd, &dry)
	return cmd
}

func undoChannel(cmd *cobra.Command, g *globals, at target, undo func(context.Context, string, string) (*api.UndoneMove, error)) error {
	ask := func(ctx context.Context) (*api.UndoneMove, error) { return undo(ctx, at.topic, at.channel) }
	return answer(cmd, g, ask, func(u *api.UndoneMove) output.View {
		gone := int64(0)
		t := output.NewTable("P", "CONFIRMED", "GONE")
		for _, q := range u.Partitions {
			t.Row(q.Partition, count(q.Confirmed), count(q.Gone))
			gone += q.Gone
		}
		return output.View{Object: u, Lines: listing.Lines(u.Partitions), Names: []string{u.Topic + "/" + u.Channel}, Text: func(p *output.Page) {
			if !g.quiet {
				p.Line("%s of %s/%s at %s taken back", u.Verb, u.Topic, u.Channel, output.Time(u.At))
				p.Line("")
			}
			p.Table(t)
			if gone > 0 {
				p.Line("")
				p.Line("warning: %s deleted since then cannot be redelivered", plural(gone, "message"))
			}
			if len(u.Unsaved) > 0 {
				p.Line("warning: no position was saved in partitions %v, without a leader at the deletion or added since: the channel begins at their end; move it with channel seek", u.Unsaved)
			}
		}}
	})
}

func savedView(h *api.ChannelHistory) output.View {
	t := output.NewTable("AT", "VERB", "P", "CONFIRMED", "MOVED TO")
	for _, s := range h.Saved {
		for _, q := range s.Partitions {
			t.Row(output.Time(s.At), s.Verb, q.Partition, count(q.Confirmed), count(q.MovedTo))
		}
	}
	return output.View{
		Object: h,
		Lines:  listing.Lines(h.Saved),
		Names:  listing.Names(h.Saved, func(s api.SavedPosition) string { return output.Time(s.At) }),
		Text:   func(p *output.Page) { p.Table(t) },
	}
}

// skipOptions define what a channel skips.
type skipOptions struct {
	id        string
	partition int
	to        uint64
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
		if err := confirmAfter(cmd, g, plural(skipped, "message")+" would be skipped; brokerctl channel undo "+at.String()+" takes that back", at.String()); err != nil {
			return err
		}
	}
	return answer(cmd, g, func(ctx context.Context) (*api.Channel, error) {
		return g.client.History.Skip(ctx, at.topic, at.channel, api.Skip{Partition: o.partition, To: o.to})
	}, channelView)
}

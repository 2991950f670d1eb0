package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/units"
)

type seekOptions struct {
	to        string
	partition int
	dryRun    bool
	sure      confirmation
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
	o.addFlags(cmd)
	return cmd
}

func (o *seekOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.to, "to", "", "target `POSITION`: start, end, a time, an age such as -2h, or an offset")
	cmd.Flags().IntVar(&o.partition, "partition", 0, "only this partition (default: all)")
	o.sure.addYes(cmd)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would happen without changing anything")
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
			at := now.Add(-d).UTC()
			return api.Seek{Time: &at}, nil
		}
	}
	if at, ok := parseTime(text, now); ok {
		return api.Seek{Time: &at}, nil
	}
	return api.Seek{}, usageError("%s %q is not a valid position: use start, end, 2026-11-21T06:00:00Z, -2h or an offset", flag, text)
}

// parseTime parses a time in one of the accepted forms.
func parseTime(text string, now time.Time) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
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
	if note := elsewhere(plan, o.to, to, g.env.now()); note != "" && !g.quiet {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "note: "+note) // an error of stderr cannot be reported
	}
	if o.dryRun {
		return g.show(cmd, planView(plan))
	}
	again, skipped := sumsOf(plan)
	if max(again, skipped) > surprising {
		warning := fmt.Sprintf("%s would be redelivered and %s skipped; brokerctl channel undo %s takes that back", plural(again, "message"), count(skipped), at)
		if err := o.sure.askAfter(cmd, g, warning, at.String()); err != nil {
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
	return fmt.Sprintf("--to %s is %s; the target is %s", text, why, strings.Join(targets, ", "))
}

func sumsOf(plan *api.MovePlan) (again, skipped int64) {
	for _, p := range plan.Partitions {
		again, skipped = again+p.Redelivered, skipped+p.Skipped
	}
	return again, skipped
}

func planView(plan *api.MovePlan) view {
	t := newTable("P", "NOW", "TARGET", "WOULD REDELIVER", "WOULD SKIP")
	for _, s := range plan.Partitions {
		t.row(s.Partition, count(s.Now), count(s.Target), count(s.Redelivered), count(s.Skipped))
	}
	return view{object: plan, lines: listing.Lines(plan.Partitions), names: []string{plan.Topic + "/" + plan.Channel}, text: func(p *page) {
		p.table(t)
		again, skipped := sumsOf(plan)
		p.line("dry run: %s would be redelivered, %s skipped", plural(again, "message"), count(skipped))
	}}
}

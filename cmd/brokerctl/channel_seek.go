package main

import (
	"context"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/units"
)

type seekOptions struct {
	to     string
	dryRun bool
}

func newChannelSeekCommand(g *globals) *cobra.Command {
	var o seekOptions
	cmd := acting(g, &cobra.Command{
		Use:   "seek TOPIC/CHANNEL --to start|end|TIME|-2h|OFFSET",
		Short: "Move a channel to another position in its topic",
		Long: `Move a channel, in every partition, to the oldest retained message (start), past the newest one (end),
to the first message published at or after a time or age, or to an offset. Messages after the new position
are delivered, also if they were finished before; messages before it are skipped.`,
		Example: `  brokerctl channel seek orders/invoice --to -2h --dry-run
  brokerctl channel seek orders/invoice --to 2026-11-21T06:00:00Z`,
	}, func(cmd *cobra.Command, at target) error {
		to, err := parseSeek(o.to, g.env.now())
		if err != nil {
			return err
		}
		if o.dryRun {
			return about(planSeek(cmd, g, at.topic, at.channel, to), at.topic, at.channel)
		}
		return about(seekChannel(cmd, g, at.topic, at.channel, to), at.topic, at.channel)
	})
	o.addFlags(cmd)
	return cmd
}

func (o *seekOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.to, "to", "", "target `POSITION`: start, end, a time, an age such as -2h, or an offset")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would happen without changing anything")
}

// parseSeek reads a place. An age counts from now.
func parseSeek(text string, now time.Time) (api.Seek, error) {
	switch edge := api.SeekEdge(text); edge {
	case api.SeekStart, api.SeekEnd:
		return api.Seek{To: edge}, nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return api.Seek{Offset: &n}, nil
	}
	if ago, back := strings.CutPrefix(text, "-"); back {
		d, err := units.ParseDuration(ago)
		if err != nil {
			return api.Seek{}, usageError("--to %q: %q %w", text, ago, err)
		}
		at := now.Add(-d).UTC()
		return api.Seek{Time: &at}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return api.Seek{Time: &at}, nil
		}
	}
	return api.Seek{}, usageError("--to %q is not a valid position: use start, end, 2026-11-21T06:00:00Z, -2h or an offset", text)
}

func seekChannel(cmd *cobra.Command, g *globals, topic, channel string, to api.Seek) error {
	c, err := query(cmd.Context(), g, func(ctx context.Context) (*api.Channel, error) {
		return g.client.SeekChannel(ctx, topic, channel, to)
	})
	if err != nil {
		return err
	}
	return g.show(cmd, channelView(c))
}

// seekPlan is what a seek would do. The messages that are finished out of order
// above Now come on top of Redelivered.
type seekPlan struct {
	Topic      string          `json:"topic"`
	Channel    string          `json:"channel"`
	Partitions []partitionSeek `json:"partitions"`
}

// partitionSeek is what a seek would do in one partition.
type partitionSeek struct {
	Partition   int        `json:"partition"`
	Now         uint64     `json:"now"` // every message below it is finished
	Target      uint64     `json:"target"`
	Redelivered uint64     `json:"redelivered"` // finished messages that come again
	Skipped     uint64     `json:"skipped"`     // unfinished messages that do not come any more
	At          *time.Time `json:"at,omitempty"`
}

// newPartitionSeek compares two places.
func newPartitionSeek(partition int, now, target uint64) partitionSeek {
	s := partitionSeek{Partition: partition, Now: now, Target: target}
	if target < now {
		s.Redelivered = now - target
	} else {
		s.Skipped = target - now
	}
	return s
}

func planSeek(cmd *cobra.Command, g *globals, topic, channel string, to api.Seek) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
	defer cancel()
	t, err := g.client.Topic(ctx, topic)
	if err != nil {
		return err
	}
	c, err := g.client.Channel(ctx, topic, channel)
	if err != nil {
		return err
	}
	plan := seekPlan{Topic: topic, Channel: channel, Partitions: []partitionSeek{}}
	for _, place := range c.Partitions {
		for _, q := range t.Partitions {
			if q.Partition != place.Partition {
				continue
			}
			target, err := seekTarget(ctx, g.client, topic, q, to)
			if err != nil {
				return err
			}
			s := newPartitionSeek(q.Partition, place.Confirmed, target)
			s.At = to.Time
			plan.Partitions = append(plan.Partitions, s)
		}
	}
	return g.show(cmd, view{
		object: plan,
		lines:  linesOf(plan.Partitions),
		names:  []string{topic + "/" + channel},
		text:   plan.text,
	})
}

// seekTarget returns the offset that a seek would move to. A time is looked for
// in the log itself, by halves.
func seekTarget(ctx context.Context, client *api.Client, topic string, q api.Partition, to api.Seek) (uint64, error) {
	switch {
	case to.Offset != nil:
		return min(max(*to.Offset, q.LogStart), q.CommittedEnd), nil
	case to.To == api.SeekStart:
		return q.LogStart, nil
	case to.Time == nil:
		return q.CommittedEnd, nil
	}
	var failed error
	n := sort.Search(int(q.CommittedEnd-q.LogStart), func(i int) bool {
		if failed != nil {
			return true
		}
		from := q.LogStart + uint64(i)
		found, err := client.Peek(ctx, topic, "", api.PeekOptions{Partition: &q.Partition, From: &from, Max: 1})
		failed = err
		return err != nil || len(found) == 0 || !found[0].Timestamp.Before(*to.Time)
	})
	return q.LogStart + uint64(n), failed
}

func (plan seekPlan) text(p *page) {
	t := newTable("P", "NOW", "TARGET", "WOULD REDELIVER", "WOULD SKIP")
	var again, skipped uint64
	for _, s := range plan.Partitions {
		t.row(s.Partition, count(s.Now), count(s.Target), count(s.Redelivered), count(s.Skipped))
		again, skipped = again+s.Redelivered, skipped+s.Skipped
	}
	p.table(t)
	p.line("dry run: %s would be redelivered, %s skipped", plural(again, "message"), count(skipped))
}

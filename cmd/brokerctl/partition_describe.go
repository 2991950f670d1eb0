package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newPartitionDescribeCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:     "describe TOPIC/PARTITION",
		Aliases: []string{"info"},
		Short:   "Show a partition and its replicas",
	}, func(cmd *cobra.Command, at target) error { return answer(cmd, g, at.describe(g), partitionView) })
}

// partitionView shows a partition and its replicas.
func partitionView(d *api.PartitionDetail) view {
	return view{object: d, names: []string{partitionName(d.Partition)}, text: func(p *page) {
		t := newTable("PARTITION", "LEADER", "REPLICAS", "ISR", "EPOCH", "FIRST", "COMMITTED", "END", "SIZE")
		t.row(partitionName(d.Partition), leader(d.Partition), list(d.Replicas), list(d.ISR), d.Epoch,
			count(d.LogStart), count(d.CommittedEnd), count(d.LogEnd), words.Size(d.Bytes))
		p.table(t)
		p.line("")
		copyTable(p, d)
		if len(d.Adding)+len(d.Removing) > 0 {
			p.line("")
			p.line("moving: adding %s, removing %s%s", list(d.Adding), list(d.Removing), prefixed("; ", progress(d.Left)))
		}
		troubleLines(p, d.Troubles)
	}}
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func copyTable(p *page, d *api.PartitionDetail) {
	t := newTable("COPY", "ROLE", "IN SYNC", "FIRST", "COMMITTED", "END", "SIZE", "LAG", "RATE", "STATE", "+BEHIND", "+CHECKED")
	for _, c := range d.Copies {
		if !c.Answered {
			t.row(c.Node, roleOf(c.Node == d.Leader), yesNo(c.InSync), "", "", "", "", "", "", "no answer", "", "")
			continue
		}
		lag, rate, state := "", "", c.State
		if c.Damaged {
			state = "DAMAGED"
		}
		if c.Seen {
			lag = count(c.Lag) + " (" + words.Size(c.LagBytes) + ")"
			if !c.Connected {
				state = "not connected"
			}
			if c.BytesPerSecond > 0 {
				rate = words.Size(c.BytesPerSecond) + "/s"
			}
		}
		t.row(c.Node, roleOf(c.Node == d.Leader), yesNo(c.InSync), count(c.LogStart), count(c.CommittedEnd), count(c.LogEnd), words.Size(c.Bytes),
			lag, rate, state, behind(c.BehindFor), checked(c))
	}
	p.table(t)
}

// checked formats when a copy was last scrubbed completely, and how much of it has been read
// since.
func checked(c api.Copy) string {
	at := "never"
	if c.CheckedAt != nil {
		at = c.CheckedAt.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("%s, %.0f%% since", at, 100*c.Checking)
}

// behind formats for how long a replica has been behind.
func behind(d api.Duration) string {
	if d < 0 {
		return "always"
	}
	return age(d)
}

// lostBy formats what an unclean election of a node may lose, to the extent that it is known.
func lostBy(d *api.PartitionDetail, to string) string {
	k := slices.IndexFunc(d.Copies, func(c api.Copy) bool { return c.Node == to })
	if k < 0 {
		return fmt.Sprintf("%s holds no replica", to)
	}
	mine := d.Copies[k]
	if !mine.Answered {
		return fmt.Sprintf("%s does not respond: its lag is unknown", to)
	}
	most, whose := mine.LogEnd, ""
	var silent []string
	for _, c := range d.Copies {
		switch {
		case !c.Answered:
			silent = append(silent, c.Node)
		case c.LogEnd > most:
			most, whose = c.LogEnd, c.Node
		}
	}
	text := fmt.Sprintf("no responding replica has more messages than %s", to)
	if whose != "" {
		text = fmt.Sprintf("%s held by %s will be lost", plural(most-mine.LogEnd, "message"), whose)
	}
	if len(silent) > 0 {
		text += fmt.Sprintf("; any messages held only by %s, which does not respond, will be lost as well", list(silent))
	}
	return text
}

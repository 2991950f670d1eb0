package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

func newPartitionCommand(g *globals) *cobra.Command {
	return newGroup("partition", "Inspect partitions, and manage their leaders and replicas",
		newPartitionListCommand(g), newPartitionDescribeCommand(g), newPartitionTransferCommand(g),
		newPartitionElectCommand(g), newPartitionMoveCommand(g), newPartitionVerifyCommand(g), newPartitionRepairCommand(g))
}

// partitionName is TOPIC/NUMBER.
func partitionName(q api.Partition) string { return fmt.Sprintf("%s/%d", q.Topic, q.Partition) }

type partitionListOptions struct {
	offline         bool
	underReplicated bool
	leader          string
}

func newPartitionListCommand(g *globals) *cobra.Command {
	var o partitionListOptions
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the partitions of every topic",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := query(cmd.Context(), g, g.client.Partitions)
			if err != nil {
				return err
			}
			partitions := []api.Partition{}
			for _, q := range all {
				if o.wants(q) {
					partitions = append(partitions, q)
				}
			}
			missing := words.UnionOf(partitions, func(q api.Partition) []string { return q.MissingNodes })
			t := output.NewTable("PARTITION", "LEADER", "REPLICAS", "ISR", "COMMITTED", "SIZE", "+EPOCH", "+FIRST", "+END")
			object := api.PartitionList{Partitions: partitions, MissingNodes: missing}
			return g.show(cmd, output.List(object, partitions, partitionName, t, func(q api.Partition) []any {
				return []any{
					partitionName(q), leader(q), list(q.Replicas), list(q.ISR), count(q.CommittedEnd), words.Size(q.Bytes),
					q.Epoch, count(q.LogStart), count(q.LogEnd),
				}
			}, func(p *output.Page) { missingNote(p, missing) }))
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.offline, "offline", false, "only partitions without a leader")
	f.BoolVar(&o.underReplicated, "under-replicated", false, "only partitions with an out-of-sync replica")
	f.StringVar(&o.leader, "leader", "", "only partitions led by this `NODE`")
	return cmd
}

// wants reports whether to show a partition.
func (o *partitionListOptions) wants(q api.Partition) bool {
	return (!o.offline || q.Leader == "") &&
		(!o.underReplicated || len(q.ISR) < len(q.Replicas)) &&
		(o.leader == "" || o.leader == q.Leader)
}

func newPartitionDescribeCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:     "describe TOPIC/PARTITION",
		Aliases: []string{"info"},
		Short:   "Show a partition and its replicas",
	}, func(cmd *cobra.Command, at target) error { return answer(cmd, g, at.describe(g), partitionView) })
}

// partitionView shows a partition and its replicas.
func partitionView(d *api.PartitionDetail) output.View {
	return output.View{Object: d, Names: []string{partitionName(d.Partition)}, Text: func(p *output.Page) {
		t := output.NewTable("PARTITION", "LEADER", "REPLICAS", "ISR", "EPOCH", "FIRST", "COMMITTED", "END", "SIZE")
		t.Row(partitionName(d.Partition), leader(d.Partition), list(d.Replicas), list(d.ISR), d.Epoch,
			count(d.LogStart), count(d.CommittedEnd), count(d.LogEnd), words.Size(d.Bytes))
		p.Table(t)
		p.Line("")
		copyTable(p, d)
		if len(d.Adding)+len(d.Removing) > 0 {
			p.Line("")
			p.Line("moving: adding %s, removing %s%s", list(d.Adding), list(d.Removing), prefixed("; ", progress(d.Left)))
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

func copyTable(p *output.Page, d *api.PartitionDetail) {
	t := output.NewTable("COPY", "ROLE", "IN SYNC", "FIRST", "COMMITTED", "END", "SIZE", "LAG", "RATE", "STATE", "+BEHIND", "+CHECKED")
	for _, c := range d.Copies {
		if !c.Answered {
			t.Row(c.Node, roleOf(c.Node == d.Leader), yesNo(c.InSync), "", "", "", "", "", "", "no answer", "", "")
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
		t.Row(c.Node, roleOf(c.Node == d.Leader), yesNo(c.InSync), count(c.LogStart), count(c.CommittedEnd), count(c.LogEnd), words.Size(c.Bytes),
			lag, rate, state, behind(c.BehindFor), checked(c))
	}
	p.Table(t)
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

func newPartitionTransferCommand(g *globals) *cobra.Command {
	var to string
	cmd := acting(g, &cobra.Command{
		Use:   "transfer TOPIC/PARTITION",
		Short: "Transfer leadership of a partition to another in-sync replica",
		Long: `Transfer leadership of a partition to another in-sync replica, gracefully: no publish fails.
Consumers get up to a second to answer the messages they have; what they answer later is delivered again.
Without --to the controller chooses the replica.`,
	}, func(cmd *cobra.Command, at target) error {
		return answer(cmd, g, func(ctx context.Context) (*api.PartitionDetail, error) {
			return g.client.TransferLeader(ctx, at.topic, at.partition, api.TransferLeader{To: to})
		}, partitionView)
	})
	cmd.Flags().StringVar(&to, "to", "", "`NODE` to become leader")
	return cmd
}

func newPartitionElectCommand(g *globals) *cobra.Command {
	var req api.ElectLeader
	cmd := acting(g, &cobra.Command{
		Use:   "elect TOPIC/PARTITION",
		Short: "Elect a leader for an offline partition",
		Long: `Elect a leader for a partition. Without --unclean only an in-sync replica can lead, and nothing is
lost; the controller does this automatically as soon as one is up. If the partition has a leader, another in-sync
replica is elected; partition transfer does that gracefully. With --unclean any replica can lead,
and messages it does not hold are lost permanently, acknowledged or not: use it only if the other replicas
cannot be restored. The election is recorded with the reason unclean.`,
		Example: `  brokerctl partition elect orders/0 --unclean --to n2`,
	}, func(cmd *cobra.Command, at target) error {
		if req.Unclean && req.To == "" {
			return usageError("--unclean requires --to: name the node whose replica to keep")
		}
		if req.Unclean && !g.yes {
			d, err := query(cmd.Context(), g, at.describe(g))
			if err != nil {
				return err
			}
			warning := fmt.Sprintf("electing %s to lead %s cannot be undone: %s", req.To, at, lostBy(d, req.To))
			if err := confirmAfter(cmd, g, warning, at.String()); err != nil {
				return err
			}
		}
		return answer(cmd, g, func(ctx context.Context) (*api.PartitionDetail, error) {
			return g.client.ElectLeader(ctx, at.topic, at.partition, req)
		}, partitionView)
	})
	f := cmd.Flags()
	f.StringVar(&req.To, "to", "", "`NODE` to become leader")
	f.BoolVar(&req.Unclean, "unclean", false, "allow an out-of-sync replica to lead: messages it lacks are lost")
	return cmd
}

func newPartitionVerifyCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:   "verify TOPIC",
		Short: "Compare the replicas of a topic's partitions",
		Long: `Compare digests of the log up to the committed end over all in-sync replicas. The exit code is 1
if they differ, or one holds more than its leader, 7 if some did not answer. Large topics need a larger --timeout.`,
	}, func(cmd *cobra.Command, at target) error { return verifyPartitions(cmd, g, at.topic) })
}

func verifyPartitions(cmd *cobra.Command, g *globals, topic string) error {
	v, err := query(cmd.Context(), g, func(ctx context.Context) (*api.Verification, error) { return g.client.Verify(ctx, topic) })
	if err != nil {
		return err
	}
	exit := exitOK
	for i := range v.Partitions {
		switch c := v.Partitions[i].Compared(); {
		case c == "NO":
			exit = failure.ExitFailed
		case c == "unknown" && exit == exitOK:
			exit = failure.ExitPartial
		}
	}
	name := func(d api.PartitionDigest) string {
		return partitionName(api.Partition{Topic: v.Topic, Partition: d.Partition})
	}
	t := output.NewTable("P", "COMMITTED", "IDENTICAL", "DIGESTS")
	err = g.show(cmd, output.List(v, v.Partitions, name, t, func(d api.PartitionDigest) []any {
		return []any{d.Partition, count(d.CommittedEnd), d.Compared(), listing.Pairs(d.Digests)}
	}, func(p *output.Page) {
		for _, d := range v.Partitions {
			for _, node := range slices.Sorted(maps.Keys(d.Unreadable)) {
				p.Line("partition %d cannot be read on %s: %s", d.Partition, node, d.Unreadable[node])
			}
			for _, node := range slices.Sorted(maps.Keys(d.Longer)) {
				p.Line("partition %d is longer on %s than at its leader: committed up to %d there; elect that replica, or see `brokerctl partition describe`",
					d.Partition, node, d.Longer[node])
			}
			if len(d.MissingNodes) > 0 {
				p.Line("partition %d: no answer from %s: the replicas there are not compared; repeat it once they answer", d.Partition, list(d.MissingNodes))
			}
		}
	}))
	if err == nil && exit != exitOK {
		return verdict(exit)
	}
	return err
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "NO"
}

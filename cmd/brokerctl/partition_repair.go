package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

type repairOptions struct {
	req api.RepairPartition
}

func newPartitionRepairCommand(g *globals) *cobra.Command {
	var o repairOptions
	cmd := acting(g, &cobra.Command{
		Use:   "repair TOPIC/PARTITION",
		Short: "List corrupt and set-aside copies of a partition, and release them",
		Long:  helpOf("partition-repair"),
		Example: `  brokerctl partition repair orders/0
  brokerctl partition repair orders/0 --discard orders.17.0.4 --on n2
  brokerctl partition repair orders/0 --accept-loss --on n1`,
	}, func(cmd *cobra.Command, at target) error {
		if err := o.validate(); err != nil {
			return err
		}
		return repairPartition(cmd, g, o, at)
	})
	f := cmd.Flags()
	f.StringVar(&o.req.Discard, "discard", "", "delete the set-aside copy of this `NAME`")
	f.BoolVar(&o.req.AcceptLoss, "accept-loss", false, "clear data_lost for a partition whose only replica lost its data")
	f.StringVar(&o.req.Node, "on", "", "`NODE` that holds the copy")
	return cmd
}

// changes reports whether the command changes anything.
func (o *repairOptions) changes() bool { return o.req.Discard != "" || o.req.AcceptLoss }

func (o *repairOptions) validate() error {
	switch {
	case o.req.Discard != "" && o.req.AcceptLoss:
		return usageError("--discard and --accept-loss are mutually exclusive")
	case o.changes() != (o.req.Node != ""):
		return usageError("--on NODE must be given with --discard NAME or --accept-loss")
	}
	return nil
}

func repairPartition(cmd *cobra.Command, g *globals, o repairOptions, at target) error {
	r, err := query(cmd.Context(), g, func(ctx context.Context) (*api.Repair, error) {
		return g.client.Repair(ctx, at.topic, at.partition)
	})
	if err != nil {
		return err
	}
	if o.changes() {
		warning := fmt.Sprintf("%s on %s was lost with its directory; cluster health will stop reporting it", at, o.req.Node)
		if o.req.Discard != "" {
			warning = fmt.Sprintf("deleting %s on %s cannot be undone: %s", o.req.Discard, o.req.Node, lostWith(r, o.req))
		}
		if err := confirmAfter(cmd, g, warning, at.String()); err != nil {
			return err
		}
		r, err = query(cmd.Context(), g, func(ctx context.Context) (*api.Repair, error) {
			return g.client.RepairPartition(ctx, at.topic, at.partition, o.req)
		})
		if err != nil {
			return err
		}
	}
	return g.show(cmd, repairView(r))
}

// lostWith formats what a set-aside copy contains that no in-sync replica has, as far as known.
func lostWith(r *api.Repair, req api.RepairPartition) string {
	k := slices.IndexFunc(r.SetAside, func(s api.SetAsideCopy) bool { return s.Node == req.Node && s.Name == req.Discard })
	if k < 0 {
		return "no such copy"
	}
	most := uint64(0)
	for _, c := range r.Copies {
		if c.InSync && c.Open {
			most = max(most, c.LogEnd)
		}
	}
	switch s := r.SetAside[k]; {
	case s.Unreadable != "":
		return "its contents are unknown"
	case s.LogEnd > most:
		return fmt.Sprintf("%s after offset %d are in no in-sync replica", plural(s.LogEnd-most, "message"), most)
	}
	return "an in-sync replica reaches as far, but may hold different messages"
}

func repairView(r *api.Repair) output.View {
	name := partitionName(api.Partition{Topic: r.Topic, Partition: r.Partition})
	return output.View{Object: r, Names: []string{name}, Text: func(p *output.Page) {
		t := output.NewTable("COPY", "ROLE", "IN SYNC", "FIRST", "COMMITTED", "END", "STATE")
		for _, c := range r.Copies {
			if !c.Open {
				t.Row(c.Node, roleOf(c.Leader), yesNo(c.InSync), "", "", "", "not open; see the node's log")
				continue
			}
			t.Row(c.Node, roleOf(c.Leader), yesNo(c.InSync), count(c.LogStart), count(c.CommittedEnd), count(c.LogEnd), repairState(c))
		}
		p.Table(t)
		for _, c := range r.Copies {
			damageLines(p, c.Node, c.Damage)
		}
		if len(r.SetAside) > 0 {
			p.Line("")
			t := output.NewTable("SET ASIDE ON", "NAME", "FIRST", "COMMITTED", "END", "WAITS", "KEPT BECAUSE", "+PATH")
			for _, s := range r.SetAside {
				t.Row(s.Node, s.Name, count(s.LogStart), count(s.CommittedEnd), count(s.LogEnd), map[bool]string{true: "yes", false: "no"}[s.Waits], s.Why+prefixed(": ", s.Unreadable), s.Path)
			}
			p.Table(t)
			for _, s := range r.SetAside {
				damageLines(p, s.Node, s.Damage)
			}
		}
		if len(r.MissingNodes) > 0 {
			p.Line("")
			p.Line("warning: no answer from %s: copies there are not listed", list(r.MissingNodes))
		}
	}}
}

// repairState formats the defects of a copy in use.
func repairState(c api.RepairCopy) string {
	switch {
	case c.Lost:
		return "LOST ITS DATA"
	case c.Refusing:
		return "REFUSES ITS LEADER"
	case c.Damaged, len(c.Damage) > 0:
		return "DAMAGED"
	}
	return "intact"
}

// damageLines lists damaged ranges.
func damageLines(p *output.Page, node string, all []api.DamageRange) {
	for _, d := range all {
		offsets := fmt.Sprintf("offsets %d to %d cannot be read", d.From, d.Next-1)
		if d.From == d.Next {
			offsets = "no offsets lost"
		}
		p.Line("corrupt on %s: %s: %s byte %d", node, offsets, d.File, d.Position)
	}
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

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
		RunE:    func(cmd *cobra.Command, _ []string) error { return listPartitions(cmd, g, o) },
	}
	o.addFlags(cmd)
	return cmd
}

func (o *partitionListOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.offline, "offline", false, "only partitions without a leader")
	f.BoolVar(&o.underReplicated, "under-replicated", false, "only partitions with an out-of-sync replica")
	f.StringVar(&o.leader, "leader", "", "only partitions led by this `NODE`")
}

// wants reports whether to show a partition.
func (o *partitionListOptions) wants(q api.Partition) bool {
	return (!o.offline || q.Leader == "") &&
		(!o.underReplicated || len(q.ISR) < len(q.Replicas)) &&
		(o.leader == "" || o.leader == q.Leader)
}

func listPartitions(cmd *cobra.Command, g *globals, o partitionListOptions) error {
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
	missing := missingOf(partitions, func(q api.Partition) []string { return q.MissingNodes })
	t := newTable("PARTITION", "LEADER", "REPLICAS", "ISR", "COMMITTED", "SIZE", "+EPOCH", "+FIRST", "+END")
	object := api.PartitionList{Partitions: partitions, MissingNodes: missing}
	return g.show(cmd, listView(object, partitions, partitionName, t, func(q api.Partition) []any {
		return []any{
			partitionName(q), leader(q), list(q.Replicas), list(q.ISR), count(q.CommittedEnd), words.Size(q.Bytes),
			q.Epoch, count(q.LogStart), count(q.LogEnd),
		}
	}, func(p *page) { p.missing(missing) }))
}

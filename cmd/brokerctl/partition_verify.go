package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

func newPartitionVerifyCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:   "verify TOPIC",
		Short: "Compare the replicas of a topic's partitions",
		Long: `Compare digests of the log up to the committed end over all in-sync replicas. The exit code is 1
unless they are identical. Large topics need a larger --timeout.`,
	}, func(cmd *cobra.Command, at target) error { return verifyPartitions(cmd, g, at.topic) })
}

func verifyPartitions(cmd *cobra.Command, g *globals, topic string) error {
	v, err := query(cmd.Context(), g, func(ctx context.Context) (*api.Verification, error) { return g.client.Verify(ctx, topic) })
	if err != nil {
		return err
	}
	identical := true
	for _, d := range v.Partitions {
		identical = identical && d.Identical
	}
	name := func(d api.PartitionDigest) string {
		return partitionName(api.Partition{Topic: v.Topic, Partition: d.Partition})
	}
	t := newTable("P", "COMMITTED", "IDENTICAL", "DIGESTS")
	err = g.show(cmd, listView(v, v.Partitions, name, t, func(d api.PartitionDigest) []any {
		return []any{d.Partition, count(d.CommittedEnd), yesNo(d.Identical), digests(d.Digests)}
	}, func(p *page) {
		for _, d := range v.Partitions {
			for _, node := range slices.Sorted(maps.Keys(d.Unreadable)) {
				p.line("partition %d cannot be read on %s: %s", d.Partition, node, d.Unreadable[node])
			}
		}
	}))
	if err == nil && !identical {
		return verdict(failure.ExitFailed)
	}
	return err
}

// digests formats node=digest pairs, sorted by node.
func digests(byNode map[string]string) string {
	var parts []string
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		parts = append(parts, node+"="+byNode[node])
	}
	return strings.Join(parts, " ")
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "NO"
}

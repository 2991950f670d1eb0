package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newClusterMapCommand(g *globals) *cobra.Command {
	return acting(g, &cobra.Command{
		Use:   "map [TOPIC]",
		Short: "Show which node has which partition: partitions by nodes",
		Long: `Show a row for each partition of a topic, or of all topics, and a column for each node: L leads the partition,
I has an in-sync replica, o an out-of-sync one, a one that is being added, r one that is being removed, and x
one on a node that is down.`,
	}, func(cmd *cobra.Command, at target) error {
		all, err := query(cmd.Context(), g, g.client.Partitions)
		if err != nil {
			return err
		}
		if at.topic != "" {
			if _, err := query(cmd.Context(), g, func(ctx context.Context) (*api.Topic, error) { return g.client.Topic(ctx, at.topic) }); err != nil {
				return err
			}
			all = slices.DeleteFunc(all, func(q api.Partition) bool { return q.Topic != at.topic })
		}
		return answer(cmd, g, g.client.Nodes, func(nodes []api.Node) output.View { return mapView(all, nodes) })
	})
}

// mappedPartition is a row of a map.
type mappedPartition struct {
	Topic     string            `json:"topic"`
	Partition int               `json:"partition"`
	Replicas  map[string]string `json:"replicas"` // by node: leader, in_sync, out_of_sync, adding or removing; down, if the node is
}

// markOf are the letters of a map.
var markOf = map[string]string{"leader": "L", "in_sync": "I", "out_of_sync": "o", "adding": "a", "removing": "r", "down": "x", "": "."}

func mapView(partitions []api.Partition, nodes []api.Node) output.View {
	header, leaders, replicas := []string{"PARTITION"}, []any{"leaders"}, []any{"replicas"}
	for _, n := range nodes {
		header, leaders, replicas = append(header, n.ID), append(leaders, n.Leaders), append(replicas, n.Replicas)
	}
	rows := []mappedPartition{}
	for _, q := range partitions {
		r := mappedPartition{q.Topic, q.Partition, map[string]string{}}
		for _, n := range nodes {
			if role := roleIn(q, n); role != "" {
				r.Replicas[n.ID] = role
			}
		}
		rows = append(rows, r)
	}
	name := func(r mappedPartition) string {
		return partitionName(api.Partition{Topic: r.Topic, Partition: r.Partition})
	}
	object := struct {
		Nodes      []string          `json:"nodes"`
		Partitions []mappedPartition `json:"partitions"`
	}{listing.Names(nodes, func(n api.Node) string { return n.ID }), rows}
	t := output.NewTable(header...)
	return output.List(object, rows, name, t, func(r mappedPartition) []any {
		cells := []any{name(r)}
		for _, n := range nodes {
			cells = append(cells, markOf[r.Replicas[n.ID]])
		}
		return cells
	}, func(p *output.Page) {
		p.Line("")
		p.Line("L leader   I in sync   o out of sync   a being added   r being removed   x node down")
		sums := output.NewTable(append([]string{"ALL TOPICS"}, header[1:]...)...)
		sums.Row(leaders...)
		sums.Row(replicas...)
		p.Details(sums)
	})
}

// roleIn returns the role of a node in a partition; "": none.
func roleIn(q api.Partition, n api.Node) string {
	switch {
	case !slices.Contains(q.Replicas, n.ID):
		return ""
	case n.State == api.NodeDown:
		return "down"
	case q.Leader == n.ID:
		return "leader"
	case slices.Contains(q.Removing, n.ID):
		return "removing"
	case slices.Contains(q.ISR, n.ID):
		return "in_sync"
	case slices.Contains(q.Adding, n.ID):
		return "adding"
	}
	return "out_of_sync"
}

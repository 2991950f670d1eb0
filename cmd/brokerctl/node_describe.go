package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newNodeDescribeCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:               "describe NODE",
		Aliases:           []string{"info"},
		Short:             "Show a node, its replicas and what remains to be moved",
		Args:              exactArgs("a NODE"),
		ValidArgsFunction: completeNodes(g),
		RunE:              func(cmd *cobra.Command, args []string) error { return answer(cmd, g, nodeOf(g, args[0]), nodeView) },
	}
}

// nodeView shows a node and its roles in the partitions.
func nodeView(n *api.NodeDetail) view {
	return view{object: n, names: []string{n.ID}, text: func(p *page) {
		nodeLine(p, n)
		t := newTable("PARTITION", "ROLE", "IN SYNC", "MOVE")
		for _, q := range n.Partitions {
			t.row(fmt.Sprintf("%s/%d", q.Topic, q.Partition), roleOf(q.Leader), yesNo(q.InSync), moveOf(q))
		}
		p.details(t)
		if text := nodeLeft(n); text != "" {
			p.line("")
			p.line("remaining: %s", text)
		}
		deletedLine(p, n)
		troubleLines(p, n.Troubles)
	}}
}

// deletedLine says what happens to deleted topics when the node is removed.
func deletedLine(p *page, n *api.NodeDetail) {
	if text := deletedAt(n); text != "" {
		p.line("deleted topics: %s", text)
	}
}

// deletedAt formats the deleted topics on a node; "" if none.
func deletedAt(n *api.NodeDetail) string {
	if n.DeletedTopics == 0 {
		return ""
	}
	text := fmt.Sprintf("it has copies of %d that can be restored; these copies are not moved and are lost with the node", n.DeletedTopics)
	if len(n.OnlyCopies) > 0 {
		text += fmt.Sprintf(". Without it these are lost: %s; to keep one, restore it first: brokerctl topic restore T", strings.Join(n.OnlyCopies, " "))
	}
	return text
}

// nodeSummary shows a node in one line, and its remaining work.
func nodeSummary(n *api.NodeDetail) view {
	return view{object: n, names: []string{n.ID}, text: func(p *page) {
		nodeLine(p, n)
		if text := nodeLeft(n); text != "" {
			p.line("remaining: %s", text)
		}
		deletedLine(p, n)
		troubleLines(p, n.Troubles)
	}}
}

func nodeLine(p *page, n *api.NodeDetail) {
	t := newTable("NODE", "STATE", "WANTED", "LEADERS", "REPLICAS", "VOTER", "TCP", "HTTP", "CLUSTER", "ZONE", "VERSION", "+HOST", "+INCARNATION")
	t.row(n.ID, n.State, n.Intent, n.Leaders, n.Replicas, voterText(n.Voter), n.TCPAddress, n.HTTPAddress, n.ClusterAddress, n.Zone, n.Version, n.Hostname, n.Incarnation)
	p.table(t)
}

func roleOf(leader bool) string {
	if leader {
		return "leader"
	}
	return "follower"
}

func moveOf(q api.NodePartition) string {
	switch {
	case q.Adding:
		return "comes"
	case q.Removing:
		return "goes"
	}
	return ""
}

// nodeLeft formats the remaining work of a drain or decommission; "" if none.
func nodeLeft(n *api.NodeDetail) string {
	var parts []string
	if n.Left.Leaders > 0 {
		parts = append(parts, plural(n.Left.Leaders, "leadership"))
	}
	if n.Left.Replicas > 0 {
		parts = append(parts, plural(n.Left.Replicas, "replica"))
	}
	if n.Left.Moving > 0 {
		parts = append(parts, fmt.Sprintf("%d moving", n.Left.Moving))
	}
	if text := progress(n.Left); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// completeNodes completes the id of a node.
func completeNodes(g *globals) completer {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 || g.connect() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		nodes, _ := g.client.Nodes(ctx) // no completion without a broker
		return withPrefix(listing.Names(nodes, func(n api.Node) string { return n.ID }), typed), cobra.ShellCompDirectiveNoFileComp
	}
}

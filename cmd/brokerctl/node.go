package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/accessctl"
	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/settings"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/health"
)

func newNodeCommand(g *globals) *cobra.Command {
	cmd := newGroup("node", "Inspect nodes and take them out of service",
		newNodeListCommand(g), newNodeDescribeCommand(g), newNodeDrainCommand(g), newNodeUndrainCommand(g),
		newNodeDecommissionCommand(g), newNodeRemoveCommand(g), settings.LogLevelCommand(g.shell()),
		accessctl.JoinTokens(g.accessShell()))
	cmd.Long = helpOf("node")
	return cmd
}

// nodeTable shows nodes, one per line.
func nodeTable(p *output.Page, nodes []api.Node) {
	t := output.NewTable("NODE", "STATE", "VOTER", "TCP", "HTTP", "CLUSTER", "ZONE", "VERSION", "+INCARNATION", "+WANTED", "+LEADERS", "+REPLICAS", "+LEVELS")
	for _, n := range nodes {
		t.Row(n.ID, stateOf(n), voterText(n.Voter), n.TCPAddress, n.HTTPAddress, n.ClusterAddress, n.Zone, n.Version, n.Incarnation,
			n.Intent, n.Leaders, n.Replicas, levels(n.Levels))
	}
	p.Table(t)
}

// levels formats the feature levels that a program supports.
func levels(l api.Levels) string {
	if l.Min == l.Max {
		return fmt.Sprint(l.Min)
	}
	return fmt.Sprintf("%d-%d", l.Min, l.Max)
}

// stateOf formats the state of a node, and whether it does not respond to the node that served the
// request.
func stateOf(n api.Node) string {
	if n.Silent && n.State != api.NodeDown {
		return string(n.State) + ", silent"
	}
	return string(n.State)
}

func voterText(voter bool) string {
	if voter {
		return "yes"
	}
	return "no"
}

func newNodeListCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the nodes",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return answer(cmd, g, g.client.NodeList, nodesView) },
	}
}

func nodesView(l *api.NodeList) output.View {
	return output.View{
		Object: l,
		Lines:  listing.Lines(l.Nodes),
		Names:  listing.Names(l.Nodes, func(n api.Node) string { return n.ID }),
		Text: func(p *output.Page) {
			nodeTable(p, l.Nodes)
			unregisteredTable(p, l.Unregistered)
		},
	}
}

// unregisteredTable shows the members that are not registered as nodes.
func unregisteredTable(p *output.Page, members []api.UnregisteredNode) {
	if len(members) == 0 {
		return
	}
	t := output.NewTable("NOT REGISTERED", "VOTER", "CLUSTER", "REASON")
	for _, m := range members {
		t.Row(m.ID, voterText(m.Voter), m.ClusterAddress, cmp.Or(m.Reason, "joining"))
	}
	p.Details(t)
}

// httpAddresses returns the HTTP addresses of the cluster's nodes.
func (g *globals) httpAddresses(ctx context.Context) ([]string, error) {
	nodes, err := query(ctx, g, g.client.Nodes)
	if err != nil {
		return nil, err
	}
	return listing.Names(nodes, func(n api.Node) string { return n.HTTPAddress }), nil
}

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
func nodeView(n *api.NodeDetail) output.View {
	return output.View{Object: n, Names: []string{n.ID}, Text: func(p *output.Page) {
		nodeLine(p, n)
		t := output.NewTable("PARTITION", "ROLE", "IN SYNC", "MOVE")
		for _, q := range n.Partitions {
			t.Row(fmt.Sprintf("%s/%d", q.Topic, q.Partition), roleOf(q.Leader), yesNo(q.InSync), moveOf(q))
		}
		p.Details(t)
		if text := nodeLeft(n); text != "" {
			p.Line("")
			p.Line("remaining: %s", text)
		}
		deletedLine(p, n)
		troubleLines(p, n.Troubles)
		stopLine(p, n)
	}}
}

// deletedLine says what happens to deleted topics when the node is removed.
func deletedLine(p *output.Page, n *api.NodeDetail) {
	if text := deletedAt(n); text != "" {
		p.Line("deleted topics: %s", text)
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
func nodeSummary(n *api.NodeDetail) output.View {
	return output.View{Object: n, Names: []string{n.ID}, Text: func(p *output.Page) {
		nodeLine(p, n)
		if text := nodeLeft(n); text != "" {
			p.Line("remaining: %s", text)
		}
		deletedLine(p, n)
		troubleLines(p, n.Troubles)
	}}
}

func nodeLine(p *output.Page, n *api.NodeDetail) {
	t := output.NewTable("NODE", "STATE", "WANTED", "LEADERS", "REPLICAS", "VOTER", "TCP", "HTTP", "CLUSTER", "ZONE", "VERSION", "+HOST", "+INCARNATION")
	t.Row(n.ID, n.State, n.Intent, n.Leaders, n.Replicas, voterText(n.Voter), n.TCPAddress, n.HTTPAddress, n.ClusterAddress, n.Zone, n.Version, n.Hostname, n.Incarnation)
	p.Table(t)
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

func newNodeDrainCommand(g *globals) *cobra.Command {
	var req api.DrainNode
	var wait bool
	cmd := &cobra.Command{
		Use:     "drain NODE",
		Short:   "Move all leaderships off a node before stopping it",
		Long:    helpOf("node-drain"),
		Example: `  brokerctl node drain n2 --stopping --wait && ssh n2 systemctl restart brokerd && brokerctl node undrain n2`,
		Args:    exactArgs("a NODE"), ValidArgsFunction: completeNodes(g),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := args[0]
			n, err := query(cmd.Context(), g, func(ctx context.Context) (*api.NodeDetail, error) { return g.client.DrainNode(ctx, id, req) })
			if err != nil {
				return err
			}
			if wait {
				if n, err = waitFor(cmd, g, nodeOf(g, id), drained); err != nil {
					return err
				}
			}
			v := nodeSummary(n)
			if req.DryRun {
				v.Text = func(p *output.Page) {
					p.Line("dry run: draining %s transfers %s to other nodes", id, plural(n.Leaders, "leadership"))
				}
			}
			return g.show(cmd, v.Then(func(p *output.Page) { stopLine(p, n) }))
		},
	}
	f := cmd.Flags()
	f.BoolVar(&wait, "wait", false, "wait until it leads nothing")
	f.BoolVar(&req.Stopping, "stopping", false, "also require that enough replicas stay in sync once the node is stopped")
	f.BoolVar(&req.Force, "force", false, "drain even if some partitions have no other in-sync replica")
	f.BoolVar(&req.DryRun, "dry-run", false, "show what would happen without changing anything")
	cmd.MarkFlagsMutuallyExclusive("wait", "dry-run")
	return cmd
}

// stopLine warns of what stopping a node now would break.
func stopLine(p *output.Page, n *api.NodeDetail) {
	if len(n.IfStopped) == 0 {
		return
	}
	names := listing.Names(n.IfStopped, func(t api.Trouble) string { return fmt.Sprintf("%s/%d", t.Topic, t.Partition) })
	p.Line("warning: do not stop %s now: %s would have no leader or too few in-sync replicas, and refuse messages: %s",
		n.ID, plural(len(n.IfStopped), "partition"), health.Names(names))
}

func nodeOf(g *globals, id string) func(context.Context) (*api.NodeDetail, error) {
	return func(ctx context.Context) (*api.NodeDetail, error) { return g.client.Node(ctx, id) }
}

// drained reports whether a node leads no partition.
func drained(n *api.NodeDetail) (text string, done bool) {
	text = fmt.Sprintf("%s leads %s", n.ID, plural(n.Leaders, "partition"))
	if len(n.Troubles) > 0 {
		text += fmt.Sprintf(", %d of them have no other in-sync replica", len(n.Troubles))
	}
	return text, n.Leaders == 0
}

func newNodeUndrainCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "undrain NODE",
		Short: "Cancel a drain or decommission of a node",
		Long: `Cancel a drain or a decommission. Replicas that have already moved stay where they are. After a restart the
node leads partitions again once its replicas are in sync: brokerctl cluster health.`,
		Args: exactArgs("a NODE"), ValidArgsFunction: completeNodes(g),
		RunE: func(cmd *cobra.Command, args []string) error {
			return answer(cmd, g, func(ctx context.Context) (*api.NodeDetail, error) { return g.client.UndrainNode(ctx, args[0]) }, nodeSummary)
		},
	}
}

type decommissionOptions struct {
	req  api.DecommissionNode
	wait bool
}

func newNodeDecommissionCommand(g *globals) *cobra.Command {
	var o decommissionOptions
	cmd := &cobra.Command{
		Use:   "decommission NODE",
		Short: "Move all data off a node before removing it",
		Long:  helpOf("node-decommission"),
		Example: `  brokerctl node decommission n3 --dry-run
  brokerctl node decommission n3 --wait && ssh n3 systemctl stop brokerd && brokerctl node remove n3`,
		Args: exactArgs("a NODE"), ValidArgsFunction: completeNodes(g),
		RunE: func(cmd *cobra.Command, args []string) error { return decommissionNode(cmd, g, o, args[0]) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.wait, "wait", false, "wait until it holds nothing")
	f.BoolVar(&o.req.Force, "force", false, "start even if the other nodes are too few for all replicas")
	f.BoolVar(&o.req.DryRun, "dry-run", false, "show what would happen without changing anything")
	return cmd
}

func decommissionNode(cmd *cobra.Command, g *globals, o decommissionOptions, id string) error {
	if o.wait && o.req.DryRun {
		return usageError("--wait and --dry-run are mutually exclusive")
	}
	n, err := query(cmd.Context(), g, nodeOf(g, id))
	if err != nil {
		return err
	}
	warning := fmt.Sprintf("decommissioning %s moves its %s and %s to other nodes: no data is lost, but much may be copied",
		id, plural(n.Leaders, "leadership"), plural(n.Replicas, "replica"))
	if text := deletedAt(n); text != "" {
		warning += ". Of deleted topics, " + text
	}
	start := func(ctx context.Context) (*api.NodeDetail, error) { return g.client.DecommissionNode(ctx, id, o.req) }
	if o.req.DryRun {
		return showDryRun(cmd, g, start, warning, id)
	}
	if err := confirmAfter(cmd, g, warning, id); err != nil {
		return err
	}
	n, err = query(cmd.Context(), g, start)
	if err != nil {
		return err
	}
	if o.wait {
		if n, err = waitFor(cmd, g, nodeOf(g, id), evacuated); err != nil {
			return err
		}
	}
	return g.show(cmd, nodeSummary(n).Then(func(p *output.Page) {
		if n.Removable && !g.quiet {
			stop := "stop it, then "
			if n.State == api.NodeDown {
				stop = ""
			}
			holds := "nothing"
			if len(n.OnlyCopies) > 0 {
				holds = "nothing but the only copy of deleted topics (" + strings.Join(n.OnlyCopies, " ") + ")"
			}
			p.Line("%s holds %s; next: %sbrokerctl node remove %s", n.ID, holds, stop, n.ID)
		}
	}))
}

// evacuated reports whether a node holds no replicas.
func evacuated(n *api.NodeDetail) (text string, done bool) {
	text = fmt.Sprintf("%s holds %s", n.ID, plural(n.Replicas, "replica"))
	if n.Left.Moving > 0 {
		text += fmt.Sprintf(", %d moving", n.Left.Moving)
	}
	if left := progress(n.Left); left != "" {
		text += ", " + left
	}
	if len(n.Troubles) > 0 {
		text += fmt.Sprintf(", %d stuck: %s", len(n.Troubles), n.Troubles[0].What)
	}
	return text, n.Replicas == 0
}

func newNodeRemoveCommand(g *globals) *cobra.Command {
	var req api.RemoveNode
	cmd := &cobra.Command{
		Use:   "remove NODE",
		Short: "Remove an empty node from the cluster permanently",
		Long:  helpOf("node-remove"),
		Args:  exactArgs("a NODE"), ValidArgsFunction: completeNodes(g),
		RunE: func(cmd *cobra.Command, args []string) error { return removeNode(cmd, g, req, args[0]) },
	}
	cmd.Flags().BoolVar(&req.LoseDeleted, "lose-deleted", false, "remove it even if deleted topics can then no longer be restored")
	cmd.Flags().BoolVar(&req.DryRun, "dry-run", false, "check whether it can be removed without changing anything")
	return cmd
}

// removed is the result of node remove.
type removed struct {
	Node   string `json:"node"`
	Action string `json:"action"`
	// LostTopics are the deleted topics of which the node had the only copy of a partition.
	LostTopics []string `json:"lost_deleted_topics,omitempty"`
}

func removeNode(cmd *cobra.Command, g *globals, req api.RemoveNode, id string) error {
	warning := fmt.Sprintf("removing %s stops it permanently and makes its data directory unusable", id)
	var lost []string
	switch n, err := query(cmd.Context(), g, nodeOf(g, id)); {
	case err == nil:
		lost = n.OnlyCopies
	case api.CodeOf(err) != failure.NotFound: // a member that never registered is not described
		return err
	}
	if len(lost) > 0 {
		warning += ". It has the only copy of deleted topics, which cannot be restored then: " + strings.Join(lost, " ")
	}
	remove := func(ctx context.Context) (*removed, error) {
		return &removed{id, "removed", lost}, g.client.RemoveNode(ctx, id, req)
	}
	if req.DryRun = req.DryRun || len(lost) > 0 && !req.LoseDeleted; req.DryRun { // the latter is refused
		return showDryRun(cmd, g, remove, warning, id)
	}
	if err := confirmAfter(cmd, g, warning, id); err != nil {
		return err
	}
	r, err := query(cmd.Context(), g, remove)
	if err != nil {
		return err
	}
	return g.show(cmd, output.View{Object: r, Names: []string{id}, Text: func(p *output.Page) {
		if !g.quiet {
			p.Line("node %s removed", id)
			if len(lost) > 0 {
				p.Line("deleted topics that can no longer be restored: %s", strings.Join(lost, " "))
			}
		}
	}})
}

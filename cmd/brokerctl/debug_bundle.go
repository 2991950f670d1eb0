package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/bundle"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

type bundleOptions struct {
	nodes   []string
	all     bool
	profile time.Duration
}

func newDebugCommand(g *globals) *cobra.Command {
	return newGroup("debug", "Collect diagnostic data", newDebugBundleCommand(g))
}

func newDebugBundleCommand(g *globals) *cobra.Command {
	var o bundleOptions
	cmd := &cobra.Command{
		Use:   "bundle FILE",
		Short: "Write the state of the cluster and its nodes to an archive",
		Long:  helpOf("debug-bundle"),
		Example: `  brokerctl debug bundle /tmp/night.tar.gz
  brokerctl debug bundle n2.tar.gz --node n2 --profile 10s`,
		Args: exactArgs("a FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, g, args[0]) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.nodes, "node", nil, "besides the cluster, only these `NODES` (default: all)")
	f.BoolVar(&o.all, "all-nodes", false, "all nodes, which is the default")
	durationVar(f, &o.profile, "profile", "also take a CPU profile of each node for this long, and a memory profile")
	_ = cmd.RegisterFlagCompletionFunc("node", completeNodes(g)) // the flag exists
	return cmd
}

func (o *bundleOptions) run(cmd *cobra.Command, g *globals, file string) (err error) {
	if o.all && len(o.nodes) > 0 {
		return usageError("--all-nodes and --node exclude each other")
	}
	over, err := g.access.HTTPClient()
	if err != nil {
		return err
	}
	over = g.access.Client(over)
	nodes, err := query(cmd.Context(), g, g.client.Nodes)
	if code := api.CodeOf(err); code == failure.Unauthenticated || code == failure.Forbidden {
		return err
	}
	if err != nil { // a cluster without metadata: the nodes of --addr are asked
		nodes = nil
		for _, address := range g.nodeAddresses() {
			nodes = append(nodes, api.Node{ID: "at-" + fileName(address), HTTPAddress: address})
		}
	}
	for _, name := range o.nodes {
		if !slices.ContainsFunc(nodes, func(n api.Node) bool { return n.ID == name }) {
			return &exitError{answer: api.Error{Code: failure.NotFound, Message: fmt.Sprintf("node %q is not in the cluster", name)}, exit: failure.ExitNotFound}
		}
	}
	q := bundle.Questioner{Client: g.client, HTTP: over, Timeout: g.timeout, Profile: o.profile}
	q.Secure = g.secure()
	sources := []bundle.Source{q.Cluster()}
	for _, n := range nodes {
		if len(o.nodes) == 0 || slices.Contains(o.nodes, n.ID) {
			sources = append(sources, q.Node(cmd.Context(), &n))
		}
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return usageError("cannot create %s: %w", file, err)
	}
	root := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".gz"), ".tar")
	head := bundle.Head{Root: root, Program: thisProgram().String(), Made: g.env.now()}
	if !g.quiet {
		warn := &sharedOutput{w: cmd.ErrOrStderr()}
		head.Silent = func(source string) {
			_, _ = fmt.Fprintf(warn, "%s: no answer within %s; its further files are waited for only briefly\n", source, g.timeout) // an error of the terminal
		}
	}
	index, err := bundle.Write(cmd.Context(), out, head, bundle.DefaultLimits, sources)
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(fmt.Errorf("no bundle was written: %w", err), os.Remove(file)) // half an archive is of no use
	}
	if err := g.show(cmd, bundleView(file, index)); err != nil {
		return err
	}
	if index.Failures > 0 {
		return verdict(failure.ExitPartial)
	}
	return nil
}

func bundleView(file string, index *bundle.Index) output.View {
	return output.View{Object: index, Names: []string{file}, Text: func(p *output.Page) {
		for _, f := range index.Files {
			if f.Error != "" {
				p.Line("missing: %s: %s", f.Name, f.Error)
			}
		}
		p.Line("%s written: %s, %d missing", file, plural(len(index.Files)-index.Failures, "file"), index.Failures)
	}}
}

// fileName converts an address to a part of a file name.
func fileName(address string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, address)
}

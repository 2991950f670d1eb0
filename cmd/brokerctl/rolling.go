package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/rolling"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// defaultStepTimeout is the default time limit of one step of a rolling restart: a node with much
// data takes minutes to start.
const defaultStepTimeout = 10 * time.Minute

type rollingOptions struct {
	command string
	nodes   []string
	version string
	timeout time.Duration
	dryRun  bool
	resume  bool // --continue

	upgrade bool
	script  *rolling.Script
}

func newRollingCommand(g *globals) *cobra.Command {
	return newGroup("rolling", "Restart or upgrade all nodes, one at a time",
		newRollingVerb(g, &rollingOptions{}), newRollingVerb(g, &rollingOptions{upgrade: true}))
}

func newRollingVerb(g *globals, o *rollingOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "restart --exec COMMAND",
		Short: "Restart all nodes, one at a time",
		Long:  helpOf("rolling"),
		Example: `  brokerctl rolling restart --exec 'ssh {{.Host}} systemctl restart brokerd'
  brokerctl rolling restart --continue --exec 'ssh {{.Host}} systemctl restart brokerd'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return roll(cmd, g, o) },
	}
	f := cmd.Flags()
	if o.upgrade {
		cmd.Use, cmd.Short = "upgrade --exec COMMAND", "Upgrade all nodes, one at a time"
		cmd.Long = strings.Replace(cmd.Long, "Restart the nodes", "Upgrade the nodes", 1) + `

After COMMAND a node has to run another version than before, or the one that --to names; nodes that run that
one already are skipped, so that the same command line continues a run that stopped.`
		cmd.Example = `  brokerctl rolling upgrade --to 0.2.0 --exec 'ssh {{.Host}} "apt-get install -y ./brokerd_0.2.0-1_amd64.deb && systemctl restart brokerd"'`
		f.StringVar(&o.version, "to", "", "target `VERSION`; nodes that already run it are skipped")
	}
	f.StringVar(&o.command, "exec", "", "`COMMAND` that restarts a node (required)")
	f.StringSliceVar(&o.nodes, "nodes", nil, "only these `NODES`, in this order (default: all, the controller last)")
	f.BoolVar(&o.resume, "continue", false, "continue the interrupted run")
	f.BoolVar(&o.dryRun, "dry-run", false, "show the order, the commands and any obstacles without changing anything")
	o.timeout = defaultStepTimeout
	durationVar(f, &o.timeout, "step-timeout", "timeout of one step on one node")
	return cmd
}

func (o *rollingOptions) prepare() (err error) {
	if strings.TrimSpace(o.command) == "" {
		return usageError("--exec is required: the command that restarts a node, such as 'ssh {{.Host}} systemctl restart brokerd'")
	}
	if o.script, err = rolling.ParseScript(o.command); err != nil {
		return usageError("--exec: %w", err)
	}
	if o.resume && len(o.nodes) > 0 {
		return usageError("--continue continues with the remaining nodes: it cannot be combined with --nodes")
	}
	if o.timeout <= 0 {
		return usageError("--step-timeout must be above 0")
	}
	return nil
}

func roll(cmd *cobra.Command, g *globals, o *rollingOptions) error {
	if err := o.prepare(); err != nil {
		return err
	}
	c, err := query(cmd.Context(), g, g.client.Cluster)
	if err != nil {
		return err
	}
	know(g.client, c) // the node in use is restarted, too
	p, err := o.plan(cmd, g, c)
	if api.CodeOf(err) != "" { // of the request
		return err
	}
	if err != nil {
		f := &exitError{answer: api.Error{Code: failure.Precondition, Message: err.Error()}, exit: failure.ExitRefused, cause: err}
		if errors.Is(err, rolling.ErrNoNode) || errors.Is(err, errNothingLeft) {
			f.answer.Code, f.exit = failure.NotFound, failure.ExitNotFound
		}
		return f
	}
	if o.dryRun {
		return o.show(cmd, g, c, p, p.Skipped())
	}
	done, err := rolling.Run(cmd.Context(), g.client, p, o.options(cmd, g))
	if shown := g.show(cmd, rollingView(p.Results(done, err))); err == nil {
		return shown
	}
	return o.failed(cmd, err)
}

var errNothingLeft = errors.New("the audit log has no interrupted rolling run")

// plan returns the nodes to restart, after checking the state that the last run has left.
func (o *rollingOptions) plan(cmd *cobra.Command, g *globals, c *api.Cluster) (rolling.Plan, error) {
	log, err := query(cmd.Context(), g, func(ctx context.Context) (*api.AuditLog, error) {
		return g.client.Insights.Audit(ctx, api.JournalOptions{Max: rolling.Journal})
	})
	if err != nil {
		return rolling.Plan{}, err
	}
	last, unfinished := rolling.UnfinishedIn(log.Acts, c)
	switch {
	case o.resume && !unfinished:
		return rolling.Plan{}, errNothingLeft
	case o.resume:
		return last.Continue(c, cmd.Name(), o.version)
	}
	p, err := rolling.PlanFor(c, o.nodes, o.version)
	if err != nil || !unfinished {
		return p, err
	}
	text := fmt.Sprintf("%s; to continue it: %s --continue --exec ...", last, strings.Replace(cmd.CommandPath(), cmd.Name(), last.Verb, 1))
	if last.Drained && !o.dryRun {
		return p, fmt.Errorf("%s; to abandon it: brokerctl node undrain %s", text, last.Node)
	}
	if !g.quiet {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), text) // a failed write is ignored
	}
	return p, nil
}

func (o *rollingOptions) options(cmd *cobra.Command, g *globals) rolling.Options {
	return rolling.Options{
		Verb: cmd.Name(), Reason: plainReason(g.reason), Version: o.version, Changed: o.upgrade, Timeout: o.timeout, Request: g.timeout, Now: g.env.now, Pause: g.env.pause,
		Say: func(node string, _ rolling.Step, text string) {
			if !g.quiet {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s  %s: %s\n", g.env.now().Format(time.TimeOnly), node, text) // progress: a failed write is ignored
			}
		},
		Audit: g.client.Insights.Audit,
		Exec: func(ctx context.Context, n *api.NodeDetail) error {
			return o.script.Run(ctx, n, cmd.ErrOrStderr())
		},
	}
}

// show prints the result of --dry-run.
func (o *rollingOptions) show(cmd *cobra.Command, g *globals, c *api.Cluster, p rolling.Plan, results []rolling.Result) error {
	h, err := query(cmd.Context(), g, g.client.Health)
	if err != nil {
		return err
	}
	for i, n := range p.Nodes {
		d, err := query(cmd.Context(), g, nodeOf(g, n.ID))
		if err != nil {
			return err
		}
		line, err := o.script.For(d)
		if err != nil {
			return err
		}
		results = append(results, rolling.Result{Node: n.ID, Result: "planned", VersionBefore: n.Version, Version: n.Version, Command: line})
		if obstacles := rolling.Fit(c, h, n.ID); i == 0 && len(obstacles) > 0 && !g.quiet {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s would wait for: %s\n", n.ID, strings.Join(obstacles, "; ")) // likewise
		}
	}
	return g.show(cmd, rollingView(results))
}

// failed adds to an error how to continue.
func (o *rollingOptions) failed(cmd *cobra.Command, err error) error {
	s, ok := errors.AsType[*rolling.Stopped](err)
	if !ok {
		return err
	}
	f := &exitError{answer: api.Error{Code: failure.Partial, Message: err.Error()}, exit: failure.ExitPartial, cause: err}
	if isInterrupted(cmd.Context()) {
		f.answer.Code, f.exit = failure.Interrupted, failure.ExitInterrupted
	}
	if len(s.Pending) > 0 {
		f.answer.Hint = fmt.Sprintf("pending: %s; to continue: %s --continue --exec ...", strings.Join(s.Pending, ","), cmd.CommandPath())
	}
	return f
}

func rollingView(results []rolling.Result) output.View {
	return output.View{
		Object: struct {
			Nodes []rolling.Result `json:"nodes"`
		}{results},
		Lines: listing.Lines(results),
		Names: listing.Names(results, func(r rolling.Result) string { return r.Node }),
		Text: func(p *output.Page) {
			t := output.NewTable("NODE", "RESULT", "VERSION", "TOOK", "+COMMAND")
			for _, r := range results {
				version := r.Version
				if r.VersionBefore != r.Version {
					version = r.VersionBefore + " -> " + r.Version
				}
				t.Row(r.Node, r.Result, version, age(api.Duration(time.Duration(r.TookMS)*time.Millisecond)), r.Command)
			}
			p.Table(t)
			for _, r := range results {
				if r.Command != "" && !p.Wide {
					p.Line("%s: %s", r.Node, r.Command)
				}
			}
		},
	}
}

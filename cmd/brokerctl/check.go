package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/checks"
	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

func newCheckCommand(g *globals) *cobra.Command {
	target := form("TOPIC/CHANNEL")
	cmd := checks.Command(newCheckNodeCommand(g), &checks.Host{
		Client: func() *api.Client { return g.client }, Timeout: func() time.Duration { return g.timeout }, Now: g.env.now,
		HTTP: g.access.AskingClient, Secure: g.secure, Complete: target.complete(g),
		NoArgs: noArgs, Duration: durationVar, Size: sizeVar, Count: countVar,
		Channel: func(cmd *cobra.Command, args []string) (topic, channel string, err error) {
			at, err := target.parse(cmd, args)
			return at.topic, at.channel, err
		},
		Explain: func(ctx context.Context, topic, channel string, err error) (why string, s checks.State, usage bool) {
			f := diagnose(ctx, err)
			if s = checks.State(checkExit(f.exit)); f.answer.Code == failure.Starting { // the cluster has not formed
				s = checks.Unknown
			}
			return f.answer.Message, s, f.exit == failure.ExitUsage || f.exit == failure.ExitInterrupted
		},
		Show: func(cmd *cobra.Command, r *checks.Result, form string) error { return showCheck(cmd, g, r, form) },
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 { // a monitoring system would take the help text for success
			return usageError("check requires a check: %s", list(listing.Names(cmd.Commands(), (*cobra.Command).Name)))
		}
		return groupOnly(cmd, args)
	}
	return cmd
}

// showCheck prints the result of a check, and returns its state as exit code.
func showCheck(cmd *cobra.Command, g *globals, r *checks.Result, form string) (err error) {
	switch form {
	case checks.FormNagios, checks.FormPrometheus:
	case checks.FormJSON:
		g.format = output.FormatJSON
	default:
		return usageError("--format %q is not a format: use one of %s", form, list(checks.Forms()))
	}
	err = g.show(cmd, output.View{Object: r, Names: []string{r.State.String()}, Text: func(p *output.Page) {
		if !g.quiet {
			p.With(func(w io.Writer) error { return r.Write(w, form) })
		}
	}})
	if err == nil && r.State != checks.OK {
		return verdict(int(r.State))
	}
	return err
}

// checkExit returns the exit code of a check for other exit codes.
func checkExit(exit int) int {
	switch exit {
	case failure.ExitUnavailable, failure.ExitNotFound:
		return int(checks.Critical)
	}
	return int(checks.Unknown)
}

// isCheck reports whether a command is a check, or the group of checks.
func isCheck(cmd *cobra.Command) bool {
	return cmd != nil && cmd.HasParent() && (cmd.Name() == "check" || cmd.Parent().Name() == "check")
}

// secure reports whether to use TLS for the nodes, as for the given address.
func (g *globals) secure() bool {
	known := g.nodeAddresses()
	return len(known) > 0 && strings.HasPrefix(known[0], "https://")
}

func newCheckNodeCommand(g *globals) *cobra.Command {
	var live bool
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Check whether the node at --addr is ready",
		Long: `Check whether the node at --addr is ready to serve: it is a member of a quorum, does not drain, and its
disk has space. The exit code is 0 if it is ready, and 2 if it is not or does not respond. Do not restart
a node because it is not ready: it may be waiting for other nodes.`,
		Example: `  brokerctl check node -q --addr http://127.0.0.1:4151`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return checkNode(cmd, g, live) },
	}
	cmd.Flags().BoolVar(&live, "live", false, "check liveness only: that the process is not stuck, whatever the state of other nodes")
	return cmd
}

func checkNode(cmd *cobra.Command, g *globals, live bool) error {
	over, err := g.access.HTTPClient()
	if err != nil {
		return err
	}
	path := api.ProbeReady
	if live {
		path = api.ProbeLive
	}
	address := api.DefaultAddress
	if known := g.nodeAddresses(); len(known) > 0 {
		address = known[0]
	}
	p, err := query(cmd.Context(), g, func(ctx context.Context) (*api.Probe, error) { return api.AskProbe(ctx, over, address, path) })
	if err != nil {
		return err
	}
	word := "ready"
	if live {
		word = "live"
	}
	if !p.OK {
		word = "not " + word
	}
	err = g.show(cmd, output.View{Object: p, Names: []string{word}, Text: func(out *output.Page) {
		if g.quiet {
			return
		}
		out.Line("%s", word)
		for _, r := range p.Reasons {
			out.Line("%s: %s", r.Code, r.What)
		}
	}})
	if err == nil && !p.OK {
		return verdict(int(checks.Critical))
	}
	return err
}

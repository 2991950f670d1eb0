package main

import (
	"context"
	"errors"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func newCheckCommand(g *globals) *cobra.Command {
	return newGroup("check", "Check one thing, for probes and scripts", newCheckNodeCommand(g))
}

func newCheckNodeCommand(g *globals) *cobra.Command {
	var live bool
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Check whether the node at --addr is ready",
		Long: `Check whether the node at --addr, and no other, is ready to serve: it is a member of a quorum, does
not drain, and its disk has room. The exit code is 0 if it is, 10 if it is not, and 6 if it does not
respond. Do not restart a node because it is not ready: it may be waiting for others.`,
		Example: `  brokerctl check node -q --addr http://127.0.0.1:4151`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return checkNode(cmd, g, live) },
	}
	cmd.Flags().BoolVar(&live, "live", false, "check only that the process is not stuck, whatever other nodes do")
	return cmd
}

func checkNode(cmd *cobra.Command, g *globals, live bool) error {
	over, err := g.access.httpClient()
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
		cause, isURL := errors.AsType[*url.Error](err)
		exit := exitFailed
		if isURL {
			exit, err = exitUnavailable, cause.Err
		}
		if errors.Is(err, context.DeadlineExceeded) || os.IsTimeout(err) {
			exit = exitUnavailable
		}
		return &exitError{answer: api.Error{Code: api.CodeUnavailable, Message: "node at " + address + ": " + err.Error()}, exit: exit, cause: err}
	}
	word := "ready"
	if live {
		word = "live"
	}
	if !p.OK {
		word = "not " + word
	}
	err = g.show(cmd, view{object: p, names: []string{word}, text: func(out *page) {
		if g.quiet {
			return
		}
		out.line("%s", word)
		for _, r := range p.Reasons {
			out.line("%s: %s", r.Code, r.What)
		}
	}})
	if err == nil && !p.OK {
		return verdict(exitUnhealthy)
	}
	return err
}

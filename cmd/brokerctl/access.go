package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/accessctl"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/shell"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// around holds the dependencies of the commands for access control.
func (g *globals) environment() accessctl.Environment {
	return accessctl.Environment{Addresses: g.nodeAddresses(), Getenv: g.env.getenv, Stdin: g.env.stdin, Stderr: g.env.stderr}
}

// shell holds the dependencies of the commands of other packages.
func (g *globals) shell() *shell.Shell {
	return &shell.Shell{
		Client: func() *api.Client { return g.client }, Timeout: func() time.Duration { return g.timeout },
		Show:    func(cmd *cobra.Command, a output.Answer) error { return g.show(cmd, a.View(g.quiet)) },
		Partial: partial, Group: groupOnly, Nodes: completeNodes(g), Duration: durationVar,
		Yes: func() bool { return g.yes }, Confirm: func(cmd *cobra.Command, what, name string) error { return confirm(cmd, g, what, name) },
	}
}

// accessShell is shell for the commands about users, tokens, rules, contexts and join tokens.
func (g *globals) accessShell() *accessctl.Shell {
	s := &accessctl.Shell{Shell: g.shell(), Options: &g.access, Environment: g.environment, Prepare: g.prepareFormat}
	if g.env.isTerminal {
		s.ReadSecret = g.env.readSecret
	}
	return s
}

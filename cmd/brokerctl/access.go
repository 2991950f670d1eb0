package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/accessctl"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/settings"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// around holds the dependencies of the commands for access control.
func (g *globals) environment() accessctl.Environment {
	return accessctl.Environment{Addresses: g.nodeAddresses(), Getenv: g.env.getenv, Stdin: g.env.stdin, Stderr: g.env.stderr}
}

// shell holds the dependencies of the commands about users, tokens, rules, contexts and join tokens.
func (g *globals) shell() *accessctl.Shell {
	s := &accessctl.Shell{
		Options: &g.access, Environment: g.environment, Client: func() *api.Client { return g.client }, Timeout: func() time.Duration { return g.timeout },
		Show: g.showAnswer, Prepare: g.prepareFormat, Group: groupOnly,
		Confirm: func(cmd *cobra.Command, yes bool, what, name string) error {
			return (&confirmation{yes}).ask(cmd, g, what, name)
		},
	}
	if g.env.isTerminal {
		s.ReadSecret = g.env.readSecret
	}
	return s
}

// settings holds the dependencies of the commands for settings of nodes.
func (g *globals) settings() *settings.Host {
	return &settings.Host{
		Client: func() *api.Client { return g.client }, Timeout: func() time.Duration { return g.timeout },
		Show: g.showAnswer, Nodes: completeNodes(g), Duration: durationVar,
	}
}

// showAnswer prints the result of a command of another package.
func (g *globals) showAnswer(cmd *cobra.Command, a output.Answer) error {
	return g.show(cmd, a.View(g.quiet))
}

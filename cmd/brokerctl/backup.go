package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/backupctl"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// newBackupCommand returns the commands of internal/backupctl.
func newBackupCommand(g *globals) *cobra.Command {
	s := &backupctl.Shell{
		Client: func() *api.Client { return g.client }, Timeout: func() time.Duration { return g.timeout }, Quiet: func() bool { return g.quiet },
		Now: g.env.now, Getenv: g.env.getenv, Tool: thisProgram().String(), UserAgent: userAgent(), Show: g.showAnswer, Partial: partial, Group: groupOnly,
		Confirm: func(cmd *cobra.Command, yes bool, what, name string) error {
			return (&confirmation{yes}).ask(cmd, g, what, name)
		},
	}
	return s.Command()
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/backupctl"
)

// newBackupCommand returns the commands of internal/backupctl.
func newBackupCommand(g *globals) *cobra.Command {
	s := &backupctl.Shell{
		Shell: g.shell(), Quiet: func() bool { return g.quiet }, Now: g.env.now, Getenv: g.env.getenv, Tool: thisProgram().String(), UserAgent: userAgent(),
	}
	return s.Command()
}

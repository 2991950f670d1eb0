package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/backups"
	"github.com/brokerd/brokerd/pkg/backup"
)

func newBackupCreateCommand(g *globals) *cobra.Command {
	var patterns []string
	cmd := inDirectory(&cobra.Command{
		Use:   "create DIR",
		Short: "Add a backup of topics to a directory",
		Long: `Add a backup to a local directory, which is created if it does not exist: for each topic its settings, its
channels with their unfinished messages, and the messages that it keeps. The cluster continues to serve. Full
chunks (10,000 messages or 32 MiB) that the latest backup in the directory contains are neither read nor stored again.

An interrupted backup is listed as incomplete and cannot be restored; the next backup uses the files that it wrote.
Ephemeral topics and channels are not included. Messages that are finished while the backup is made may be delivered
again after a restore; no message is missing.`,
		Example: `  brokerctl backup create /var/backups/brokerd
  brokerctl backup create /mnt/offsite --topics 'orders*' --topics clicks`,
	}, func(cmd *cobra.Command, d backup.Dir) error {
		o := backups.Create{Patterns: patterns, Tool: thisProgram().String()}
		if !g.quiet {
			o.Progress = func(topic string, n int) {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s copied\n", topic, plural(n, "message"))
			}
		}
		made, err := g.backedUp().Make(cmd.Context(), d, o)
		if err != nil {
			return fmt.Errorf("no complete backup was made: %w", err)
		}
		m := made.Manifest
		messages, stored := m.Totals()
		report := struct {
			ID       string   `json:"id"`
			Topics   int      `json:"topics"`
			Messages int      `json:"messages"`
			Copied   int      `json:"copied"` // the others were already in the directory
			Bytes    int64    `json:"bytes"`
			Gone     []string `json:"gone"` // topics deleted during the backup
		}{m.ID, len(m.Topics), messages, made.Copied, stored, append([]string{}, made.Gone...)}
		return g.show(cmd, view{object: report, names: []string{m.ID}, text: func(p *page) {
			p.line("backup %s: %s of %s, %d of them copied now", m.ID, plural(messages, "message"), plural(len(m.Topics), "topic"), made.Copied)
			for _, name := range made.Gone {
				p.line("topic %s was deleted during the backup and is not included", name)
			}
		}})
	})
	cmd.Flags().StringArrayVar(&patterns, "topics", nil, "only topics whose name matches a `PATTERN` with * and ?; repeat to add more (default: all)")
	return cmd
}

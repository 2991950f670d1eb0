package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/backups"
	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/backup"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

func newBackupCommand(g *globals) *cobra.Command {
	return newGroup("backup", "Back topics up to a directory, and restore them",
		newBackupCreateCommand(g), newBackupListCommand(g), newBackupVerifyCommand(g), newBackupRestoreCommand(g))
}

// inDirectory creates a command for a directory of backups.
func inDirectory(cmd *cobra.Command, run func(cmd *cobra.Command, d backup.Dir) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return usageError("%s takes one directory", cmd.CommandPath())
		}
		return refusedBackup(run(cmd, backup.At(args[0])))
	}
	return cmd
}

// refusedBackup adds the exit code to an error of package backup. Other errors, and nil, are
// unchanged.
func refusedBackup(err error) error {
	if _, known := errors.AsType[*exitError](err); known || err == nil {
		return err
	}
	is := func(target error) bool { return errors.Is(err, target) }
	f := &exitError{answer: api.Error{Message: err.Error(), Fate: fate.Refused.String()}, cause: err}
	switch {
	case is(backup.ErrNoBackup), is(errNoTopic):
		f.answer.Code, f.exit = failure.NotFound, failure.ExitNotFound
	case is(backup.ErrIncomplete), is(backup.ErrNewerFormat), is(backups.ErrTopicThere), is(backups.ErrBrokenOff):
		f.answer.Code, f.exit = failure.Precondition, failure.ExitRefused
	default:
		return err
	}
	return f
}

// backedUp returns the cluster of the client, for a backup or a restore.
func (g *globals) backedUp() *backups.Cluster {
	return &backups.Cluster{Client: g.client, Timeout: g.timeout, Now: g.env.now}
}

// backupSummary is a backup in the list.
type backupSummary struct {
	ID       string `json:"id"`
	Created  string `json:"created,omitempty"`
	Complete bool   `json:"complete"`
	Topics   int    `json:"topics"`
	Messages int    `json:"messages"`
	Bytes    int64  `json:"bytes"` // of its chunks, including those shared with other backups
	Cluster  string `json:"cluster,omitempty"`
	Tool     string `json:"tool,omitempty"`
	Error    string `json:"error,omitempty"` // why its manifest is unreadable
}

// state returns the state of a backup in one word.
func (b *backupSummary) state() string {
	switch {
	case b.Error != "":
		return "corrupt"
	case b.Complete:
		return "complete"
	}
	return "incomplete"
}

func newBackupListCommand(g *globals) *cobra.Command {
	return inDirectory(&cobra.Command{
		Use:   "list DIR",
		Short: "List the backups in a directory, oldest first",
		Long: `List the backups in a directory, oldest first. An incomplete backup was interrupted, or is in progress. BYTES
is the size on disk; files that several backups share count for each of them.`,
	}, func(cmd *cobra.Command, d backup.Dir) error {
		listed, err := d.List()
		if err != nil {
			return err
		}
		all := make([]backupSummary, 0, len(listed))
		for _, l := range listed {
			s := backupSummary{ID: l.ID, Complete: l.Complete && l.Err == nil}
			if m := l.Manifest; m != nil {
				s.Created, s.Topics, s.Cluster, s.Tool = timeText(m.Created), len(m.Topics), m.Cluster, m.Tool
				s.Messages, s.Bytes = m.Totals()
			}
			if l.Err != nil {
				s.Error = l.Err.Error()
			}
			all = append(all, s)
		}
		t := newTable("BACKUP", "STATE", "TOPICS", "MESSAGES", "BYTES", "+CLUSTER", "+MADE BY")
		return g.show(cmd, listView(map[string][]backupSummary{"backups": all}, all, func(b backupSummary) string { return b.ID }, t,
			func(b backupSummary) []any {
				return []any{b.ID, b.state(), b.Topics, count(b.Messages), words.Size(b.Bytes), b.Cluster, b.Tool}
			}))
	})
}

func newBackupVerifyCommand(g *globals) *cobra.Command {
	var id string
	cmd := inDirectory(&cobra.Command{
		Use:   "verify DIR",
		Short: "Read a backup and check all of its checksums",
		Long: `Read a whole backup, the latest complete one or --backup, and check the checksums of the manifest and of each
file, and every message and position in them. If data is damaged or missing, the command names it and exits
with 1. It needs no broker.`,
	}, func(cmd *cobra.Command, d backup.Dir) error {
		m, err := d.Load(id)
		if err != nil {
			return err
		}
		wrong := d.Verify(m)
		messages, stored := m.Totals()
		report := struct {
			ID       string   `json:"id"`
			Topics   int      `json:"topics"`
			Messages int      `json:"messages"`
			Bytes    int64    `json:"bytes"`
			Damaged  []string `json:"damaged"`
		}{m.ID, len(m.Topics), messages, stored, listing.Names(wrong, error.Error)}
		if err := g.show(cmd, view{object: report, names: []string{m.ID}, text: func(p *page) {
			for _, e := range wrong {
				p.line("%v", e)
			}
			if len(wrong) == 0 && !g.quiet {
				p.line("backup %s is intact: %s of %s, %s", m.ID, plural(messages, "message"), plural(len(m.Topics), "topic"), words.Size(stored))
			}
		}}); err != nil {
			return err
		}
		if len(wrong) > 0 {
			return fmt.Errorf("backup %s is corrupt in %s; so are other backups that share these files", m.ID, plural(len(wrong), "place"))
		}
		return nil
	})
	cmd.Flags().StringVar(&id, "backup", "", "`ID` of the backup (default: the latest complete one)")
	return cmd
}

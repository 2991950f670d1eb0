package backupctl

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/backups"
	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/backup"
	"github.com/brokerd/brokerd/pkg/fate"
)

// summary is a backup in the list.
type summary struct {
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
func (b *summary) state() string {
	switch {
	case b.Error != "":
		return "corrupt"
	case b.Complete:
		return "complete"
	}
	return "incomplete"
}

func (s *Shell) list() *cobra.Command {
	return s.in(&cobra.Command{
		Use:   "list STORE",
		Short: "List the backups in a store, oldest first",
		Long: `List the backups in a store, oldest first. An incomplete backup was interrupted, or is in progress. BYTES is the
size in the store; chunks that several backups share count for each of them.`,
	}, false, func(cmd *cobra.Command, r *backup.Repository, _ []string) error {
		listed, err := r.List(cmd.Context())
		if err != nil {
			return err
		}
		all := make([]summary, 0, len(listed))
		a := output.Answer{Header: []string{"BACKUP", "STATE", "TOPICS", "MESSAGES", "BYTES", "+CLUSTER", "+MADE BY"}}
		for _, l := range listed {
			b := summary{ID: l.ID, Complete: l.Complete && l.Err == nil}
			if m := l.Manifest; m != nil {
				b.Created, b.Topics, b.Cluster, b.Tool = output.Time(m.Created), len(m.Topics), m.Cluster, m.Tool
				b.Messages, b.Bytes = m.Totals()
			}
			if l.Err != nil {
				b.Error = l.Err.Error()
			}
			all = append(all, b)
			a.Names = append(a.Names, b.ID)
			a.Rows = append(a.Rows, []any{b.ID, b.state(), b.Topics, words.Count(b.Messages), words.Size(b.Bytes), b.Cluster, b.Tool})
		}
		a.Object, a.Lines = map[string][]summary{"backups": all}, listing.Lines(all)
		return s.Show(cmd, a)
	})
}

func (s *Shell) create() *cobra.Command {
	var patterns []string
	cmd := s.in(&cobra.Command{
		Use:   "create STORE",
		Short: "Add a backup of topics to a store",
		Long: `Add a backup to a local directory, which is created if it does not exist, or to a bucket: for each topic its
settings, its channels with their unfinished messages, and the messages that it keeps. The cluster continues to serve.
Full chunks (10,000 messages or 32 MiB) that the latest backup in the store contains are neither read nor stored again;
other chunks that the store has are not stored again.

An interrupted backup is not restored; the next backup uses the chunks that it stored. Ephemeral topics and channels are
not included. Messages that are finished while the backup is made may be delivered again after a restore; no message is
missing. With a bucket, a chunk is written to a temporary file (TMPDIR) before it is sent.`,
		Example: `  brokerctl backup create /var/backups/brokerd
  brokerctl backup create s3://backups/brokerd/prod --s3-endpoint https://storage.example.com:9000
  brokerctl backup create /mnt/offsite --topics 'orders*' --topics clicks`,
	}, false, func(cmd *cobra.Command, r *backup.Repository, _ []string) error {
		o := backups.Create{Patterns: patterns, Tool: s.Tool, Progress: func(topic string, n int) {
			s.progress(cmd, "%s: %s copied", topic, words.CountOf(n, "message"))
		}}
		made, err := s.cluster().Make(cmd.Context(), r, o)
		switch {
		case err != nil && fate.Of(err) == fate.Uncertain:
			return fmt.Errorf("whether the backup is complete is not known, see brokerctl backup list: %w", err)
		case err != nil:
			return fmt.Errorf("no complete backup was made: %w", err)
		}
		m := made.Manifest
		messages, stored := m.Totals()
		report := struct {
			ID       string   `json:"id"`
			Topics   int      `json:"topics"`
			Messages int      `json:"messages"`
			Copied   int      `json:"copied"` // the others were already in the store
			Bytes    int64    `json:"bytes"`
			Gone     []string `json:"gone"` // topics deleted during the backup
			// Restoring are topics whose restore is in progress or was interrupted; they are left out.
			Restoring []string `json:"restoring"`
		}{m.ID, len(m.Topics), messages, made.Copied, stored, append([]string{}, made.Gone...), append([]string{}, made.Restoring...)}
		lines := []string{fmt.Sprintf("backup %s: %s of %s, %d of them copied now", m.ID, words.CountOf(messages, "message"), words.CountOf(len(m.Topics), "topic"), made.Copied)}
		for _, name := range made.Gone {
			lines = append(lines, fmt.Sprintf("topic %s was deleted during the backup and is not included", name))
		}
		for _, name := range made.Restoring {
			lines = append(lines, fmt.Sprintf("topic %s is being restored, or its restore was interrupted: it is not included", name))
		}
		return s.Show(cmd, output.Answer{Object: report, Names: []string{m.ID}, Said: strings.Join(lines, "\n"), Result: true})
	})
	cmd.Flags().StringArrayVar(&patterns, "topics", nil, "only topics whose name matches a `PATTERN` with * and ?; repeat to add more (default: all)")
	return cmd
}

func (s *Shell) verify() *cobra.Command {
	var id string
	cmd := s.in(&cobra.Command{
		Use:   "verify STORE",
		Short: "Read a backup and check all of its checksums",
		Long: `Read a whole backup, the latest complete one or --backup, and check the checksums of the manifest and of each
chunk, and every message and position in them. If data is damaged or missing, the command names it and exits
with 1. Remove a damaged chunk: the next backup copies its messages again, if their topic still has them. The command
needs no broker.`,
	}, false, func(cmd *cobra.Command, r *backup.Repository, _ []string) error {
		m, err := r.Load(cmd.Context(), id)
		if err != nil {
			return err
		}
		wrong, err := r.Verify(cmd.Context(), m)
		if err != nil {
			return fmt.Errorf("backup %s was not verified to its end: %w", m.ID, err)
		}
		messages, stored := m.Totals()
		report := struct {
			ID       string   `json:"id"`
			Topics   int      `json:"topics"`
			Messages int      `json:"messages"`
			Bytes    int64    `json:"bytes"`
			Damaged  []string `json:"damaged"`
		}{m.ID, len(m.Topics), messages, stored, listing.Names(wrong, error.Error)}
		a := output.Answer{Object: report, Names: []string{m.ID}, Said: strings.Join(report.Damaged, "\n"), Result: len(wrong) > 0}
		if len(wrong) == 0 {
			a.Said = fmt.Sprintf("backup %s is intact: %s of %s, %s", m.ID, words.CountOf(messages, "message"), words.CountOf(len(m.Topics), "topic"), words.Size(stored))
		}
		if err := s.Show(cmd, a); err != nil {
			return err
		}
		if len(wrong) > 0 {
			return fmt.Errorf("backup %s is corrupt in %s; so are other backups that share these chunks", m.ID, words.CountOf(len(wrong), "place"))
		}
		return nil
	})
	cmd.Flags().StringVar(&id, "backup", "", "`ID` of the backup (default: the latest complete one)")
	return cmd
}

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/backups"
	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/snapshots"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/backup"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
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

// restoreOptions define what is restored, and under which names.
type restoreOptions struct {
	id, topic, as string
	replicas      int
	dry           bool
}

func newBackupRestoreCommand(g *globals) *cobra.Command {
	var o restoreOptions
	cmd := inDirectory(&cobra.Command{
		Use:   "restore DIR",
		Short: "Restore topics from a backup",
		Long: `Restore the topics of a backup, or one of them, into a new or a running cluster: settings, messages in the same
order and partitions, and channels with their unfinished messages. If one of the topics exists, nothing is restored;
--as restores a topic under another name. The whole backup is checked before anything is changed.

Messages get new ids and timestamps. Attempts and dedup ids are not restored. A deferred message waits until the first
of its channels may deliver it.

A topic delivers nothing while it is restored, and has a channel ` + backups.Marker + `. An interrupted restore
leaves the topic in this state: purge the topic, and repeat the command.`,
		Example: `  brokerctl backup restore /var/backups/brokerd --dry-run
  brokerctl backup restore /var/backups/brokerd --topic orders --as orders-yesterday`,
	}, func(cmd *cobra.Command, d backup.Dir) error { return o.run(cmd, g, d) })
	f := cmd.Flags()
	f.StringVar(&o.id, "backup", "", "`ID` of the backup (default: the latest complete one)")
	f.StringVar(&o.topic, "topic", "", "only this `TOPIC` (default: all in the backup)")
	f.StringVar(&o.as, "as", "", "with --topic: restore it under this `NAME`")
	f.IntVarP(&o.replicas, "replicas", "r", 0, "replicas per partition (default: as in the backup)")
	f.BoolVar(&o.dry, "dry-run", false, "check the backup and the names without restoring anything")
	return cmd
}

var errNoTopic = errors.New("topic not found in the backup")

func (o *restoreOptions) run(cmd *cobra.Command, g *globals, d backup.Dir) error {
	switch {
	case o.as != "" && o.topic == "":
		return usageError("--as requires --topic")
	case o.as != "" && !meta.ValidTopicName(o.as):
		return usageError("%q is not a valid topic name", o.as)
	case o.replicas < 0:
		return usageError("--replicas must not be below 0")
	}
	m, err := d.Load(o.id)
	if err != nil {
		return err
	}
	topics := m.Topics
	if o.topic != "" {
		t := m.Topic(o.topic)
		if t == nil {
			return fmt.Errorf("backup %s: topic %s: %w", m.ID, o.topic, errNoTopic)
		}
		topics = []backup.Topic{*t}
	}
	part := *m
	part.Topics = topics
	if err := errors.Join(d.Verify(&part)...); err != nil {
		return err
	}
	all, err := o.restore(cmd, g, d, topics)
	if err != nil && len(all) > 0 && !o.dry {
		err = partial(cmd.Context(), err, plural(len(all), "topic")+" restored")
	}
	if err != nil {
		return err
	}
	return g.show(cmd, view{
		object: map[string]any{"backup": m.ID, "topics": all},
		lines:  listing.Lines(all),
		names:  listing.Names(all, func(r backups.Restored) string { return r.As }),
		text: func(p *page) {
			if o.dry {
				p.line("dry run: backup %s is intact, and this would be restored:", m.ID)
			}
			t := newTable("TOPIC", "AS", "MESSAGES", "CHANNELS", "PENDING")
			for _, r := range all {
				t.row(r.Topic, r.As, r.Messages, r.Channels, r.Pending)
			}
			p.table(t)
		},
	})
}

// restore restores topics after it has checked that no name is in use.
func (o *restoreOptions) restore(cmd *cobra.Command, g *globals, d backup.Dir, topics []backup.Topic) (all []backups.Restored, err error) {
	for _, dry := range []bool{true, false} {
		if o.dry && !dry {
			break
		}
		all = all[:0]
		for i := range topics {
			as := topics[i].Name
			if o.as != "" {
				as = o.as
			}
			done, err := g.backedUp().Restore(cmd.Context(), d, &topics[i], as, o.replicas, dry)
			if err != nil {
				if dry {
					all = nil
				}
				return all, err
			}
			all = append(all, done)
		}
	}
	return all, nil
}

// snapshotResult is the result of brokerctl snapshot.
type snapshotResult struct {
	File string `json:"file"`
	*snapshots.Summary
}

func newSnapshotCommand(g *globals) *cobra.Command {
	return newGroup("snapshot", "Save and inspect the metadata of the cluster", newSnapshotSaveCommand(g), newSnapshotInspectCommand(g), snapshots.RestoreCommand())
}

func newSnapshotSaveCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "save FILE",
		Short: "Write the metadata of the cluster to a file",
		Long: `Write the metadata of the cluster, as known on the node that serves the request, to a file, which is replaced
atomically: nodes, topics, channels, their settings, the placement of partitions, users and rules, and the audit log.
It does not contain messages and channel positions: brokerctl backup saves those. The file contains hashes of passwords,
and only its owner may read it.

"brokerd recover --only-survivor --snapshot FILE" uses the snapshot if the metadata is damaged on all nodes while their
messages are intact.`,
		Example: `  brokerctl snapshot save /var/backups/brokerd/metadata`,
		Args:    exactArgs("a FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := query(cmd.Context(), g, g.client.Insights.MetadataSnapshot)
			if err != nil {
				return err
			}
			result, err := readSnapshot(args[0], s.Content) // it may be damaged in transit
			if err != nil {
				return err
			}
			if err := snapshots.Write(args[0], s.Content); err != nil {
				return err
			}
			return g.show(cmd, result.view())
		},
	}
}

func newSnapshotInspectCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect FILE",
		Short: "Check a file written by snapshot save, and show its contents",
		Long: `Check a file written by "brokerctl snapshot save" completely, and show its contents. The command needs no node. A file
that is damaged, or was written by a newer release, is refused with exit code 4.`,
		Example: `  brokerctl snapshot inspect /var/backups/brokerd/metadata`,
		Args:    exactArgs("a FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			content, err := snapshots.Read(args[0])
			if errors.Is(err, os.ErrNotExist) {
				return &exitError{answer: api.Error{Code: failure.NotFound, Message: err.Error()}, exit: failure.ExitNotFound, cause: err}
			}
			if err != nil {
				return err
			}
			result, err := readSnapshot(args[0], content)
			if err != nil {
				return err
			}
			return g.show(cmd, result.view())
		},
	}
}

// readSnapshot verifies a snapshot and counts its contents.
func readSnapshot(file string, content []byte) (*snapshotResult, error) {
	s, err := snapshots.Inspect(content)
	if err != nil {
		code := failure.Precondition // written by a newer release
		if errors.Is(err, meta.ErrCorrupt) {
			code = failure.Corrupt
		}
		return nil, &exitError{answer: api.Error{Code: code, Message: fmt.Sprintf("snapshot %s: %v", file, err)}, exit: failure.ExitRefused, cause: err}
	}
	return &snapshotResult{file, s}, nil
}

func (r *snapshotResult) view() view {
	return view{object: r, names: []string{r.File}, text: func(p *page) {
		t := newTable("CLUSTER", "INDEX", "LEVEL", "NODES", "TOPICS", "PARTITIONS", "CHANNELS", "DELETED TOPICS", "BYTES")
		t.row(r.ClusterID, r.Index, r.Level, r.Nodes, r.Topics, r.Partitions, r.Channels, r.Deleted, r.Bytes)
		p.table(t)
	}}
}

package backupctl

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/backups"
	"github.com/brokerd/brokerd/internal/listing"
	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/shell"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/backup"
	"github.com/brokerd/brokerd/pkg/meta"
)

// restoreOptions define what is restored, and under which names.
type restoreOptions struct {
	id, topic, as string
	replicas      int
	dry           bool
}

func (s *Shell) restore() *cobra.Command {
	var o restoreOptions
	cmd := s.in(&cobra.Command{
		Use:   "restore STORE",
		Short: "Restore topics from a backup",
		Long: `Restore the topics of a backup, or one of them, into a new or a running cluster: settings, messages in the same
order and partitions, and channels with their unfinished messages. If one of the topics exists, nothing is restored;
--as restores a topic under another name. The whole backup is checked before anything is changed.

Messages get new ids and timestamps. Attempts and dedup ids are not restored. A deferred message waits until the first
of its channels may deliver it.

A topic delivers nothing while it is restored, and has a channel ` + backups.Marker + `. An interrupted restore
leaves the topic in this state: purge the topic, and repeat the command.`,
		Example: `  brokerctl backup restore /var/backups/brokerd --dry-run
  brokerctl backup restore s3://backups/brokerd/prod --backup 20261125T060000.000Z
  brokerctl backup restore /var/backups/brokerd --topic orders --as orders-yesterday`,
	}, false, func(cmd *cobra.Command, r *backup.Repository, _ []string) error { return o.run(cmd, s, r) })
	f := cmd.Flags()
	f.StringVar(&o.id, "backup", "", "`ID` of the backup (default: the latest complete one)")
	f.StringVar(&o.topic, "topic", "", "only this `TOPIC` (default: all in the backup)")
	f.StringVar(&o.as, "as", "", "with --topic: restore it under this `NAME`")
	f.IntVarP(&o.replicas, "replicas", "r", 0, "replicas per partition (default: as in the backup)")
	f.BoolVar(&o.dry, "dry-run", false, "check the backup and the names without restoring anything")
	return cmd
}

var errNoTopic = errors.New("topic not found in the backup")

func (o *restoreOptions) run(cmd *cobra.Command, s *Shell, r *backup.Repository) error {
	switch {
	case o.as != "" && o.topic == "":
		return shell.Usage("--as requires --topic")
	case o.as != "" && !meta.ValidTopicName(o.as):
		return shell.Usage("%q is not a valid topic name", o.as)
	case o.replicas < 0:
		return shell.Usage("--replicas must not be below 0")
	}
	m, err := r.Load(cmd.Context(), o.id)
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
	var all []backups.Restored
	unprotected := func(err error) {
		cmd.PrintErrf("warning: backups can be deleted while this one is restored, because the store cannot be written: %v\n", err)
	}
	err = r.Reading(cmd.Context(), unprotected, func(ctx context.Context) error {
		wrong, err := r.Verify(ctx, &part)
		if err = errors.Join(append(wrong, err)...); err != nil {
			return fmt.Errorf("nothing was restored: %w", err)
		}
		all, err = o.restore(ctx, s, r, topics)
		return err
	})
	if err != nil && len(all) > 0 && !o.dry {
		err = s.Partial(cmd.Context(), err, words.CountOf(len(all), "topic")+" restored")
	}
	if err != nil {
		return err
	}
	a := output.Answer{
		Object: map[string]any{"backup": m.ID, "topics": all}, Lines: listing.Lines(all), Result: true,
		Names: listing.Names(all, func(r backups.Restored) string { return r.As }), Header: []string{"TOPIC", "AS", "MESSAGES", "CHANNELS", "PENDING"},
	}
	if o.dry {
		a.Said = fmt.Sprintf("dry run: backup %s is intact, and this would be restored:", m.ID)
	}
	for _, r := range all {
		a.Rows = append(a.Rows, []any{r.Topic, r.As, r.Messages, r.Channels, r.Pending})
	}
	return s.Show(cmd, a)
}

// restore restores topics after it has checked that no name is in use.
func (o *restoreOptions) restore(ctx context.Context, s *Shell, r *backup.Repository, topics []backup.Topic) (all []backups.Restored, err error) {
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
			done, err := s.cluster().Restore(ctx, r, &topics[i], as, o.replicas, dry)
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

package backupctl

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/shell"
	"github.com/brokerd/brokerd/internal/words"
	"github.com/brokerd/brokerd/pkg/backup"
)

// deletion is the flags of the commands that delete backups.
type deletion struct{ dry bool }

func (d *deletion) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&d.dry, "dry-run", false, "report what would be deleted without deleting anything")
}

func (s *Shell) delete() *cobra.Command {
	var d deletion
	cmd := s.in(&cobra.Command{
		Use:   "delete STORE ID...",
		Short: "Delete backups, and the chunks that no other backup uses",
		Long: `Delete backups by their ids, and the chunks that no other backup uses. Backups that were interrupted more than an
hour ago are deleted as well. The command is refused while a backup is made, and up to an hour after one was interrupted
by a crash. An interrupted deletion leaves the remaining backups intact; the next one completes it.`,
		Example: `  brokerctl backup delete /var/backups/brokerd 20261125T060000.000Z`,
	}, true, func(cmd *cobra.Command, r *backup.Repository, ids []string) error {
		if len(ids) == 0 {
			return shell.Usage("%s requires an ID, see brokerctl backup list", cmd.CommandPath())
		}
		return d.run(cmd, s, r, func(dry bool) (*backup.Deleted, error) { return r.Delete(cmd.Context(), ids, dry) })
	})
	d.addFlags(cmd)
	return cmd
}

func (s *Shell) prune() *cobra.Command {
	var d deletion
	var keep int
	cmd := s.in(&cobra.Command{
		Use:   "prune STORE",
		Short: "Delete all but the latest backups",
		Long: `Delete all but the latest N complete backups of each cluster in a store, and the chunks that none of them uses.
Backups of some topics (create --topics) count as well: write them to another directory or prefix. Otherwise the command
works as backup delete does.`,
		Example: `  brokerctl backup prune s3://backups/brokerd/prod --keep-last 14 --yes`,
	}, false, func(cmd *cobra.Command, r *backup.Repository, _ []string) error {
		if keep < 1 {
			return shell.Usage("--keep-last must be at least 1")
		}
		return d.run(cmd, s, r, func(dry bool) (*backup.Deleted, error) { return r.Prune(cmd.Context(), keep, dry) })
	})
	cmd.Flags().IntVar(&keep, "keep-last", 0, "keep the latest `N` complete backups of each cluster (required)")
	_ = cmd.MarkFlagRequired("keep-last") // the flag exists
	d.addFlags(cmd)
	return cmd
}

// run deletes backups after a confirmation, which says what would be deleted.
func (d *deletion) run(cmd *cobra.Command, s *Shell, r *backup.Repository, remove func(dry bool) (*backup.Deleted, error)) error {
	if !d.dry && !s.Yes() {
		would, err := remove(true)
		if err != nil {
			return err
		}
		if err := s.Confirm(cmd, fmt.Sprintf("deleting %s in", words.CountOf(len(would.Backups), "backup")), r.String()); err != nil {
			return err
		}
	}
	done, err := remove(d.dry)
	if err != nil && done != nil {
		return s.Partial(cmd.Context(), err, words.CountOf(len(done.Backups), "backup")+" deleted")
	}
	if err != nil {
		return err
	}
	what := "deleted"
	if d.dry {
		what = "dry run: would delete"
	}
	return s.Show(cmd, output.Answer{Object: done, Names: done.Backups, Result: true, Said: fmt.Sprintf("%s %s and %s (%s) that no other backup uses; %s kept",
		what, words.CountOf(len(done.Backups), "backup"), words.CountOf(done.Chunks, "chunk"), words.Size(done.Bytes), words.CountOf(len(done.Kept), "backup"))})
}

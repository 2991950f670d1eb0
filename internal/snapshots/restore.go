package snapshots

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// errOnline is why the metadata of a cluster that runs is not replaced, and what to do instead.
var errOnline = errors.New(`a running cluster does not take its metadata from a file: the file says which nodes led and which replicas were in sync when it was saved; with that, messages acknowledged since would be lost. What to do instead:
  the metadata of all nodes is damaged, and they do not start: stop them; on the one that was in sync in the most partitions
      brokerd recover --only-survivor --data-dir DIR --node-id NODE --snapshot FILE
      (then again with --yes-lose-what-is-missing; docs/operations/runbooks.md has all steps)
  the metadata of one node is damaged: move its data directory away, do not delete it (topics with one replica there are
      only in it), and start the node with an empty one and the same node id
  a topic was deleted: brokerctl topic restore TOPIC
  topics are lost, or belong into another cluster: brokerctl backup restore DIR
  users or rules are lost: brokerctl user create, acl grant and token create`)

// RestoreCommand returns the command that says why a snapshot is not restored by brokerctl, and by what it is.
func RestoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Say what to do instead: a running cluster takes no metadata from a file",
		Long: `Say which command restores what: a running cluster takes no metadata from a file. It is always refused, with exit
code 4.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(*cobra.Command, []string) error { return api.Errorf(failure.Precondition, "%w", errOnline) },
	}
}

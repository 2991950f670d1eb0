package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/cluster"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// answerTimeout is the timeout for a node that recover would give up.
const answerTimeout = time.Second

// recoverOptions are the options of `recover`.
type recoverOptions struct {
	onlySurvivor bool
	yes          bool
	dataDir      string
	nodeID       string
	assumeDead   []string
	output       string
	snapshot     string
}

func (p *program) recoverCommand() *cobra.Command {
	var o recoverOptions
	cmd := &cobra.Command{
		Use: "recover --only-survivor --data-dir DIR [--yes-lose-what-is-missing]", Args: cobra.NoArgs,
		Short: "Recover a cluster from its last surviving node",
		Long: `Turn the last surviving node of a cluster into a single-node cluster, when a
majority of the nodes is permanently lost. If one of them can be repaired with its
data, repair it instead. The node must be stopped. Without
--yes-lose-what-is-missing nothing is changed: the expected data loss is printed,
and the exit code is 1. Run as root, the command acts as the user whose node uses DIR.

Data held only by the lost nodes is lost: messages, topics and changes committed
without this node. Partitions in which this node was in sync are complete. The
others stay offline until "brokerctl partition elect --unclean" serves the local
replica: "brokerctl partition list --offline" lists them. The lost nodes can never
rejoin with their old data; with empty data directories they join as new nodes.
Topics with an explicit number of replicas regain them with "brokerctl topic alter".

--snapshot FILE uses the metadata written by "brokerctl snapshot save", if that of DIR is damaged or
missing on all nodes; damaged metadata is kept as DIR/meta-damaged-*. Topics and changes made since the
snapshot are lost, and so are messages that only other replicas have acknowledged since then.

See docs/operations/disaster.md for more.`,
		Example: `  systemctl stop brokerd
  brokerd recover --only-survivor --data-dir /var/lib/brokerd
  brokerd recover --only-survivor --data-dir /var/lib/brokerd --yes-lose-what-is-missing
  systemctl start brokerd                    # then on new nodes, with empty data directories
  brokerctl partition list --offline
  brokerctl topic alter TOPIC --replicas 3 --wait
  brokerctl cluster health`,
	}
	f := cmd.Flags()
	f.BoolVar(&o.onlySurvivor, "only-survivor", false, "confirm that no other node of the cluster can be restored")
	f.BoolVar(&o.yes, "yes-lose-what-is-missing", false, "recover, losing the data missing on this node")
	f.StringVar(&o.dataDir, "data-dir", "", "data `DIR` of the node")
	f.StringVar(&o.nodeID, "node-id", "", "id of the node (default: read from the data directory)")
	f.StringSliceVar(&o.assumeDead, "assume-dead", nil, "`NODES` to treat as lost even if their addresses respond")
	f.StringVar(&o.snapshot, "snapshot", "", "use the metadata in `FILE`, saved by brokerctl snapshot save, in place of DIR's damaged one")
	f.StringVarP(&o.output, "output", "o", "table", "output format: table or json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return finish(recoverSurvivor(cmd.OutOrStdout(), o))
	}
	return cmd
}

func (o *recoverOptions) validate() error {
	switch {
	case !o.onlySurvivor:
		return exitWith(exitUsage, errors.New("recover requires --only-survivor: use it only if all other nodes of the cluster are lost"))
	case o.dataDir == "":
		return exitWith(exitUsage, errors.New("recover requires --data-dir"))
	case o.output != "table" && o.output != "json":
		return exitWith(exitUsage, fmt.Errorf("output %q must be one of table, json", o.output))
	}
	if _, err := os.Stat(o.dataDir); err != nil {
		return exitWith(exitDisk, fmt.Errorf("data directory: %w", err))
	}
	if o.nodeID == "" {
		o.nodeID = string(raftstore.StoredNode(metaDir(o.dataDir)))
	}
	if o.nodeID == "" {
		return exitWith(exitUsage, fmt.Errorf("%s does not contain a node id: set --node-id", o.dataDir))
	}
	return nil
}

// recoverSurvivor prints the losses of a recovery and, if confirmed, performs it as the user of the
// node. It reads the snapshot, which only its owner may read, as the user who runs it.
func recoverSurvivor(w io.Writer, o recoverOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	data, self := datadir.At(vfs.OS{}, o.dataDir), meta.NodeID(o.nodeID)
	c := cluster.RecoverOptions{
		Self: self, DataDir: o.dataDir, Claim: data.SetOwner,
		KeepNewer: func(s *meta.State) error { return datadir.NewerThan(s, data, self).Keep() },
	}
	if err := o.readSnapshot(&c); err != nil {
		return err
	}
	return asOwner(o.dataDir, func() error { return recoverFrom(w, o, c) })
}

func recoverFrom(w io.Writer, o recoverOptions, c cluster.RecoverOptions) error {
	lock, err := lockDataDir(o.dataDir, o.nodeID, time.Now())
	if err != nil {
		return err
	}
	defer lock.Close()
	data := datadir.At(vfs.OS{}, o.dataDir)
	if err := data.Replay(); err != nil {
		return err
	}
	s, err := cluster.ReadSurvivor(c)
	if errors.Is(err, cluster.ErrNotLost) {
		_, err := fmt.Fprintf(w, "%s is the only member of its cluster: nothing to recover from.\n", o.nodeID)
		return err
	}
	if err != nil {
		return recoverFailed(err)
	}
	if err := refuseIfAnswered(s.Others, o.assumeDead); err != nil {
		return err
	}
	report, err := newLossReport(o.dataDir, s)
	if err == nil && o.snapshot != "" {
		err = report.compare(datadir.NewerThan(s.State, data, c.Self))
	}
	if err != nil {
		return err
	}
	if o.yes {
		if report.NewClusterID, err = cluster.Recover(c); err != nil {
			return recoverFailed(err)
		}
	}
	if err := report.print(w, o.output); err != nil {
		return err
	}
	if !o.yes {
		return silent{exitFailed}
	}
	return nil
}

// readSnapshot reads the metadata of --snapshot, if given. It must be of the cluster to which the
// data in the directory belongs.
func (o *recoverOptions) readSnapshot(c *cluster.RecoverOptions) error {
	if o.snapshot == "" {
		return nil
	}
	f, err := os.Open(o.snapshot)
	if err != nil {
		return exitWith(exitUsage, fmt.Errorf("snapshot: %w", err))
	}
	defer f.Close()
	if c.Snapshot, err = meta.DecodeSnapshot(f); err != nil {
		return exitWith(exitConfig, fmt.Errorf("snapshot %s: %w", o.snapshot, err))
	}
	is, want := c.Snapshot.Cluster().ID, datadir.At(vfs.OS{}, o.dataDir).ClusterID()
	if want != "" && want != is {
		return exitWith(exitConfig, fmt.Errorf("snapshot %s is of cluster %s, the data in %s of cluster %s: use a snapshot of that cluster, "+
			"or, where a recovery was interrupted, repeat it without --snapshot", o.snapshot, is, o.dataDir, want))
	}
	return nil
}

// recoverFailed returns the exit code of an error of a recovery.
func recoverFailed(err error) error {
	if errors.Is(err, raftstore.ErrNoStore) || errors.Is(err, fs.ErrNotExist) {
		return exitWith(exitDisk, err)
	}
	if errors.Is(err, cluster.ErrMetadataThere) {
		return exitWith(exitConfig, err)
	}
	if errors.Is(err, raftstore.ErrNotMember) {
		return exitWith(exitConfig, fmt.Errorf("%w: it was removed or never joined; recover a different node", err))
	}
	return err
}

// refuseIfAnswered refuses to give up nodes whose addresses respond.
func refuseIfAnswered(others []raftstore.Member, assumeDead []string) error {
	var mu sync.Mutex // guards alive
	var alive []string
	var asking sync.WaitGroup
	for _, m := range others {
		if slices.Contains(assumeDead, string(m.ID)) {
			continue
		}
		asking.Go(func() {
			conn, err := net.DialTimeout("tcp", m.Address, answerTimeout)
			if err != nil {
				return
			}
			conn.Close()
			mu.Lock()
			defer mu.Unlock()
			alive = append(alive, fmt.Sprintf("%s at %s", m.ID, m.Address))
		})
	}
	asking.Wait()
	if len(alive) == 0 {
		return nil
	}
	slices.Sort(alive)
	return exitWith(exitTemporary, fmt.Errorf(`other nodes of the cluster respond: %s
Nothing was changed. A cluster can be recovered from one node only. If a majority can be
restored, start it instead: nothing is lost. If not, choose the node that is in sync in the
most partitions (run "brokerd recover --only-survivor" on each to see), stop all others,
recover that one, and start the others with empty data directories to join it.
If a node is lost but something else responds at its address, add --assume-dead NODE`, strings.Join(alive, ", ")))
}

// table writes rows of columns.
func table(w io.Writer, head string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, head)
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}

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

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/cluster"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// answerPatience is how long a node that is to be given up may take to answer.
const answerPatience = time.Second

// recoverOptions are what `recover` is told.
type recoverOptions struct {
	onlySurvivor bool
	yes          bool
	dataDir      string
	nodeID       string
	assumeDead   []string
	output       string
}

func (p *program) recoverCommand() *cobra.Command {
	var o recoverOptions
	cmd := &cobra.Command{
		Use: "recover --only-survivor --data-dir DIR [--yes-lose-what-is-missing]", Args: cobra.NoArgs,
		Short: "Make the last surviving node of a cluster a cluster of one",
		Long: `Make the last surviving node of a cluster a cluster of one, when a majority of
the nodes is lost for good. The node must not run. Without
--yes-lose-what-is-missing nothing is changed: what would be lost is printed, and
the exit code is 1.

What only the lost nodes had is lost: messages, topics and changes that they
agreed on without this node. Partitions in which this node was in sync are
complete. The others stay offline until "brokerctl partition elect --unclean"
serves what is here. The lost nodes can never take part again with their data;
emptied, they join as new ones. docs/operations.md has the whole procedure.`,
	}
	f := cmd.Flags()
	f.BoolVar(&o.onlySurvivor, "only-survivor", false, "confirm that no other node of the cluster can be brought back")
	f.BoolVar(&o.yes, "yes-lose-what-is-missing", false, "do it, and lose what is missing here")
	f.StringVar(&o.dataDir, "data-dir", "", "`DIR` is the data directory of the node")
	f.StringVar(&o.nodeID, "node-id", "", "id of the node; empty: the one that the data directory names")
	f.StringSliceVar(&o.assumeDead, "assume-dead", nil, "`NODES` that are lost although something answers at their addresses")
	f.StringVarP(&o.output, "output", "o", "table", "table or json: the form of what is printed")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return finish(recoverSurvivor(cmd.OutOrStdout(), o))
	}
	return cmd
}

func (o *recoverOptions) validate() error {
	switch {
	case !o.onlySurvivor:
		return exitWith(exitUsage, errors.New("recover needs --only-survivor: it is for a node whose cluster is lost, but for itself"))
	case o.dataDir == "":
		return exitWith(exitUsage, errors.New("recover needs --data-dir"))
	case o.output != "table" && o.output != "json":
		return exitWith(exitUsage, fmt.Errorf("output %q is none of table, json", o.output))
	}
	if _, err := os.Stat(o.dataDir); err != nil {
		return exitWith(exitDisk, fmt.Errorf("data directory: %w", err))
	}
	if o.nodeID == "" {
		o.nodeID = string(raftstore.StoredNode(metaDir(o.dataDir)))
	}
	if o.nodeID == "" {
		return exitWith(exitUsage, fmt.Errorf("%s does not say whose it is: name the node with --node-id", o.dataDir))
	}
	return nil
}

// recoverSurvivor prints what a recovery loses and, if it was confirmed, does it.
func recoverSurvivor(w io.Writer, o recoverOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	lock, err := lockDataDir(o.dataDir, o.nodeID, time.Now())
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := broker.ReplayRedo(vfs.OS{}, o.dataDir); err != nil {
		return err
	}
	c := cluster.RecoverOptions{
		Self: meta.NodeID(o.nodeID), DataDir: o.dataDir,
		Claim: func(id string) error { return broker.Claim(vfs.OS{}, o.dataDir, id) },
	}
	s, err := cluster.ReadSurvivor(c)
	if errors.Is(err, cluster.ErrNotLost) {
		_, err := fmt.Fprintf(w, "%s is the only member of its cluster: there is nothing to recover from.\n", o.nodeID)
		return err
	}
	if err != nil {
		return recoverFailed(err)
	}
	if err := refuseIfAnswered(s.Others, o.assumeDead); err != nil {
		return err
	}
	report, err := newLossReport(o.dataDir, s)
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

// recoverFailed chooses the exit code of an error that is not one of this program.
func recoverFailed(err error) error {
	if errors.Is(err, raftstore.ErrNoStore) || errors.Is(err, fs.ErrNotExist) {
		return exitWith(exitDisk, err)
	}
	if errors.Is(err, raftstore.ErrNotMember) {
		return exitWith(exitConfig, fmt.Errorf("%w: it was removed, or has never joined; recover another node", err))
	}
	return err
}

// refuseIfAnswered refuses to give up nodes at whose addresses something answers.
func refuseIfAnswered(others []raftstore.Member, assumeDead []string) error {
	var mu sync.Mutex // guards alive
	var alive []string
	var asking sync.WaitGroup
	for _, m := range others {
		if slices.Contains(assumeDead, string(m.ID)) {
			continue
		}
		asking.Go(func() {
			conn, err := net.DialTimeout("tcp", m.Address, answerPatience)
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
	return exitWith(exitTemporary, fmt.Errorf(`a node that is to be given up answers: %s
Nothing was changed. Only one node can be recovered from. If a majority can be brought
back, start it instead: nothing is lost then. If not, choose the node that is in sync in
the most partitions ("brokerd recover --only-survivor" on each says so), stop all others,
recover that one, and start the others with empty data directories: they join it.
A node that is lost although something else answers at its address: --assume-dead NODE`, strings.Join(alive, ", ")))
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

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/internal/output"
	"github.com/brokerd/brokerd/internal/snapshots"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

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

func (r *snapshotResult) view() output.View {
	return output.View{Object: r, Names: []string{r.File}, Text: func(p *output.Page) {
		t := output.NewTable("CLUSTER", "INDEX", "LEVEL", "NODES", "TOPICS", "PARTITIONS", "CHANNELS", "DELETED TOPICS", "BYTES")
		t.Row(r.ClusterID, r.Index, r.Level, r.Nodes, r.Topics, r.Partitions, r.Channels, r.Deleted, r.Bytes)
		p.Table(t)
	}}
}

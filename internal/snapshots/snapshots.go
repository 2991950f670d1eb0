// Package snapshots reads and writes files with the metadata of a cluster, for brokerctl.
//
// It knows the file as a whole, and counts its content. It does not know how a cluster's metadata
// gets into such a file or out of it again: only brokerd recover does.
//
// Invariant: a file that was damaged, or is of a newer release, is refused.
package snapshots

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Summary is what a snapshot of the metadata holds.
type Summary struct {
	ClusterID  string `json:"cluster_id"`
	Level      int    `json:"level"` // feature level
	Index      uint64 `json:"index"` // of the last change in it
	Bytes      int    `json:"bytes"`
	Nodes      int    `json:"nodes"`
	Topics     int    `json:"topics"`
	Partitions int    `json:"partitions"`
	Channels   int    `json:"channels"`
	Deleted    int    `json:"deleted_topics"` // in the trash
}

// Inspect checks every byte of a snapshot and counts what it holds. The error wraps meta.ErrCorrupt for one that is
// damaged, meta.ErrUnknownSnapshot or failure.FeatureLevel for one of a newer release.
func Inspect(content []byte) (*Summary, error) {
	s, err := meta.DecodeSnapshot(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	r := &Summary{ClusterID: s.Cluster().ID, Level: int(s.Cluster().Level), Index: s.Index(), Bytes: len(content), Nodes: s.NodeCount()}
	for range meta.TrashOf(s).All() {
		r.Deleted++
	}
	for t := range s.Topics() {
		r.Topics++
		r.Partitions += len(t.Partitions)
		r.Channels += len(t.Channels)
	}
	return r, nil
}

// maxBytes bounds what is read of a file.
const maxBytes = 1 << 30

// Read reads a file that Write wrote. Anything but a regular file of acceptable size is an error.
func Read(file string) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxBytes:
		return nil, fmt.Errorf("%s is not a file with a snapshot", file)
	}
	return os.ReadFile(file)
}

// Write atomically writes a file that only its owner may read. It replaces only regular files.
func Write(file string, content []byte) error {
	if file == "" || file == "-" {
		return fmt.Errorf("%q is not the name of a file", file)
	}
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file: nothing was written", file)
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

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

// RestoreCommand returns the command that explains why brokerctl does not restore a snapshot, and
// what to use instead.
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

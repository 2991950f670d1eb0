package raftstore

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// errStored reports that the directory holds metadata. Refused.
var errStored = errors.New("directory holds metadata")

// seededEntries is how far after its snapshot a seeded store begins: beyond the entries that the
// cluster may have committed since, because the entry that created a topic distinguishes it from
// others.
const seededEntries = 1 << 20

// seedTerm is the term of such a store. Only nodes of the cluster that it begins know its terms.
const seedTerm = 1

// Seed creates the store of node id from a state, in a directory that holds none. All nodes in the
// state are voters, so Recover must follow, in the same directory, before it is opened. If Seed
// fails, the directory must be removed.
func Seed(dir string, id meta.NodeID, state *meta.State, log *slog.Logger) error {
	if err := vfs.MkdirAllSynced(vfs.OS{}, dir); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	held, err := verify(dir, id)
	if err != nil {
		return err
	}
	if held.made || held.log.begun || held.snap != 0 {
		return fmt.Errorf("%w: %s", errStored, dir)
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsRetained, newBridge(log))
	if err != nil {
		return fmt.Errorf("metadata snapshots: %w", err)
	}
	members := MembersOf(state)
	var c raft.Configuration
	for _, m := range members.Members {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Address)})
	}
	index := state.Index() + seededEntries
	_, transport := raft.NewInmemTransport("")
	sink, err := snapshots.Create(raft.SnapshotVersionMax, index, seedTerm, c, index, transport)
	if err == nil {
		err = image{state}.Persist(sink)
	}
	if err = errors.Join(err, transport.Close()); err != nil {
		return fmt.Errorf("metadata snapshots: %w", err)
	}
	path := filepath.Join(dir, logFile)
	bolt, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions()})
	if err != nil {
		return fmt.Errorf("metadata log %s: %w", path, err)
	}
	err = bolt.SetUint64([]byte("CurrentTerm"), seedTerm) // a store with a term has been used
	if err = errors.Join(err, bolt.Close()); err != nil {
		return fmt.Errorf("metadata log %s: %w", path, err)
	}
	return errors.Join(writeIdentity(dir, id), vfs.OS{}.SyncDir(dir))
}

// MembersOf returns the nodes of a state as a configuration in which all of them vote.
func MembersOf(state *meta.State) (c Configuration) {
	for n := range state.Nodes() {
		c.Members = append(c.Members, Member{ID: n.ID, Address: n.ClusterAddress, Voter: true})
	}
	return c
}

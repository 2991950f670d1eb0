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

// ErrNotMember reports that the node is not a member according to its own disk. Refused.
var ErrNotMember = errors.New("node is not a member according to its own metadata")

// Recover converts the store of node id in dir, which no process may have open, to that of a
// cluster of one: everything in its log counts as committed, the node is the only voter, and the
// state is that of meta.OnlySurvivor with the new cluster id. Other nodes' stores can never join
// this one again.
//
// If it fails or is interrupted, it must be called again before the store is opened. Repeating it
// is harmless.
func Recover(dir string, id meta.NodeID, cluster string, log *slog.Logger) (*meta.State, error) {
	stored, err := ReadStored(dir, id)
	if err != nil {
		return nil, err
	}
	self, ok := stored.Configuration.Find(id)
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNotMember, id)
	}
	path := filepath.Join(dir, logFile)
	bolt, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions()})
	if err != nil {
		return nil, fmt.Errorf("metadata log %s: %w", path, err)
	}
	m := &survivor{machine: newMachine(0), id: id, cluster: cluster}
	err = m.recover(dir, bolt, self.Address, log)
	if err = errors.Join(err, bolt.Close(), vfs.OS{}.SyncDir(dir)); err != nil {
		return nil, fmt.Errorf("recover metadata: %w", err)
	}
	return m.recovered, nil
}

// survivor is the state machine into which the consensus library replays the log. Its snapshot is
// the state of the cluster of one.
type survivor struct {
	*machine
	id        meta.NodeID
	cluster   string
	recovered *meta.State
}

func (m *survivor) recover(dir string, store *raftboltdb.BoltStore, address string, log *slog.Logger) error {
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsRetained, newBridge(log))
	if err != nil {
		return err
	}
	o := Options{NodeID: m.id, Address: address, Logger: log}.withDefaults()
	_, transport := raft.NewInmemTransport(raft.ServerAddress(address))
	err = raft.RecoverCluster(o.raftConfig(), m, store, store, snapshots, transport, raft.Configuration{
		Servers: []raft.Server{{ID: raft.ServerID(m.id), Address: raft.ServerAddress(address)}},
	})
	return errors.Join(err, transport.Close())
}

// Snapshot implements raft.FSM.
func (m *survivor) Snapshot() (raft.FSMSnapshot, error) {
	if failed := m.failed.Load(); failed != nil {
		return nil, *failed
	}
	next, err := meta.OnlySurvivor(m.state, m.id, m.cluster)
	if err != nil {
		return nil, err
	}
	m.recovered = next
	return image{next}, nil
}

package raftstore

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// parts are what the consensus library works with.
type parts struct {
	log       storage
	close     func() error // closes log
	free      func() int64 // unused bytes in the log's file; nil: it has no file
	snapshots raft.SnapshotStore
	reserve   *reserve
	made      bool // the store already exists
}

// openParts verifies and opens what Options name.
func openParts(o *Options) (*parts, error) {
	if o.InMemory {
		return &parts{log: raft.NewInmemStore(), close: func() error { return nil }, snapshots: raft.NewInmemSnapshotStore()}, nil
	}
	if err := vfs.MkdirAllSynced(vfs.OS{}, o.Dir); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	held, err := verify(o.Dir, o.NodeID)
	if err != nil {
		return nil, explain(err)
	}
	path := filepath.Join(o.Dir, logFile)
	if !held.made && o.Bootstrap && held.log.first == 0 && held.snap == 0 {
		// These files remain of a first start that was interrupted before it had stored anything
		// that another node could have seen.
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("metadata log: %w", err)
		}
		held.log.begun = false
	}
	if err := compact(path, o.Logger); err != nil {
		return nil, err
	}
	p := &parts{made: held.log.begun}
	if p.reserve, err = newReserve(filepath.Join(o.Dir, reserveFile), o.ReserveBytes, o.Logger); err != nil {
		return nil, err
	}
	p.snapshots, err = raft.NewFileSnapshotStoreWithLogger(o.Dir, snapshotsRetained, newBridge(o.Logger))
	if err != nil {
		return nil, snapshotsUnusable(o.Dir, err)
	}
	bolt, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions()})
	for err != nil && isFull(err) && p.reserve.release() { // it writes when it is opened
		bolt, err = raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: boltOptions()})
	}
	if err != nil {
		return nil, fmt.Errorf("metadata log %s: %w", path, plain(err))
	}
	p.log, p.close = bolt, bolt.Close
	p.free = func() int64 { return int64(bolt.Stats().FreeAlloc) }
	// From here on the files' names also survive a power cut.
	if err := (vfs.OS{}).SyncDir(o.Dir); err != nil {
		return nil, errors.Join(fmt.Errorf("metadata: %w", err), bolt.Close())
	}
	return p, nil
}

// snapshotsUnusable explains the failure of the library's check that a file can be created and
// removed. It reports only a text, and calls everything a lack of permissions.
func snapshotsUnusable(dir string, err error) error {
	dir = filepath.Join(dir, snapshotsDir)
	probe := filepath.Join(dir, "permTest") // the file that the library tried to create
	if cause := cmp.Or(os.MkdirAll(dir, 0o755), os.WriteFile(probe, nil, 0o600), os.Remove(probe)); cause != nil {
		err = cause
	}
	if isFull(err) {
		return plain(fmt.Errorf("metadata snapshots: the node cannot start without room for another file: free disk space (df) or inodes (df -i) of the file system of %s: %w", dir, err))
	}
	return fmt.Errorf("metadata snapshots: the node cannot start, because it cannot create and remove a file in %s: %w", dir, err)
}

// boltOptions keep the list of free pages out of the file: a scan at open finds them again, which
// for a file of this size is cheaper than writing the list with every command.
func boltOptions() *bbolt.Options {
	return &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, Timeout: fileLockTimeout}
}

// Exists reports whether dir holds the metadata of node id, so that the node must open it instead
// of joining a cluster again. A directory of another node, and damage that it meets, are errors.
func Exists(dir string, id meta.NodeID) (bool, error) {
	if made, err := readIdentity(filepath.Join(dir, identityFile), id); made || err != nil {
		return made, explain(err)
	}
	held, err := verify(dir, id)
	return held.snap != 0 || held.log.first != 0, explain(err)
}

// carrier is the transport of the Raft group.
type carrier struct {
	raft.Transport
	peers *transport // nil: it reaches no other node
	close func() error
}

// started passes the running Raft to the transport.
func (c *carrier) started(r *raft.Raft) {
	if c.peers != nil {
		c.peers.raft.Store(r)
	}
}

// openCarrier returns the transport of a store that writes through g and closes stop when it begins
// to close.
func openCarrier(o *Options, g *guard, stop <-chan struct{}) *carrier {
	if o.Stream != nil {
		return openNetwork(o, g, stop)
	}
	addr, local := raft.NewInmemTransport(raft.ServerAddress(o.Address))
	local.Connect(addr, local)
	return &carrier{local, nil, local.Close}
}

// stalled returns for how long the disk has not responded, as far as the transport is concerned.
func (o *Options) stalled(g *guard) func(time.Time) time.Duration {
	if o.DiskStalled == nil {
		return g.stalled
	}
	return func(now time.Time) time.Duration {
		if o.DiskStalled() {
			return max(g.stalled(now), 2*stalledAfter)
		}
		return g.stalled(now)
	}
}

func openNetwork(o *Options, g *guard, stop <-chan struct{}) *carrier {
	peers := &transport{stalled: o.stalled(g), timeout: o.HeartbeatTimeout * rpcTimeoutHeartbeats, stop: stop, answers: map[raft.ServerID]chan struct{}{}}
	layer := newStreamLayer(o)
	peers.NetworkTransport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: layer, MaxPool: pooledConns, Timeout: peers.timeout, Logger: newBridge(o.Logger),
	})
	return &carrier{peers, peers, func() error {
		peers.endHeartbeats()
		return errors.Join(peers.Close(), layer.Close())
	}}
}

// bootstrap makes the first state of a cluster of this node, in log.
func bootstrap(o *Options, p *parts, log storage, t raft.Transport) error {
	if p.made || !o.Bootstrap {
		return nil
	}
	err := raft.BootstrapCluster(o.raftConfig(), log, log, p.snapshots, t, raft.Configuration{
		Servers: []raft.Server{{ID: raft.ServerID(o.NodeID), Address: raft.ServerAddress(o.Address)}},
	})
	if err != nil {
		return fmt.Errorf("initialize metadata in %s: %w", o.Dir, err)
	}
	p.made = true
	return nil
}

package raftstore

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Stored is the metadata on disk, without contact to other nodes: the newest snapshot and all
// later log entries.
type Stored struct {
	// State has every entry applied, committed or not.
	State *meta.State
	// Configuration is the last one in the log, committed or not.
	Configuration Configuration
	// LastIndex is the index of the last entry.
	LastIndex uint64
	// Unsure are the commands at the end of the log that are not known to be committed: other nodes
	// may never have received them.
	Unsure []Entry
	// Written is when the log was last written.
	Written time.Time
}

// Entry is a command in the log.
type Entry struct {
	Index   uint64
	Command meta.Command
}

// ErrNoStore reports that the directory holds no metadata. Refused.
var ErrNoStore = errors.New("directory holds no metadata")

// ReadStored reads the metadata of node id in a directory that no process has open, and changes
// nothing. An error whose fate is corrupt names the damaged file. Without metadata it returns
// ErrNoStore.
func ReadStored(dir string, id meta.NodeID) (*Stored, error) {
	path := filepath.Join(dir, logFile)
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNoStore, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("metadata log: %w", err)
	}
	held, err := verify(dir, id)
	if err != nil {
		return nil, err
	}
	if held.snap == 0 && held.log.first == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoStore, dir)
	}
	bolt, err := raftboltdb.New(raftboltdb.Options{
		Path: path, BoltOptions: &bbolt.Options{ReadOnly: true, Timeout: fileLockTimeout},
	})
	if err != nil {
		return nil, fmt.Errorf("metadata log %s: %w", path, err)
	}
	snapshots, err := raft.NewFileSnapshotStore(dir, snapshotsRetained, io.Discard)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("metadata snapshots: %w", err), bolt.Close())
	}
	s, err := readBack(bolt, bolt, snapshots, nil)
	if err = errors.Join(err, bolt.Close()); err != nil {
		return nil, err
	}
	s.Written = info.ModTime()
	return s, nil
}

// Stored returns the metadata on this node's disk while it is open, without waiting for writes
// in progress.
func (s *Store) Stored() (*Stored, error) {
	return readBack(s.guard, s.guard, s.snapshots, nil)
}

// StoredCluster returns the cluster id of the metadata on a node's disk; "" if none. It reads no
// more than necessary.
func StoredCluster(s *Store) (string, error) {
	if id := s.View().Cluster().ID; id != "" { // from a snapshot, when the store was opened
		return id, nil
	}
	named := func(o *Stored) bool { return o.State.Cluster().ID != "" }
	stored, err := readBack(s.guard, s.guard, s.snapshots, named)
	if err != nil {
		return "", err
	}
	return stored.State.Cluster().ID, nil
}

// readBack applies the stored entries to an empty state, until enough returns true; nil: all.
func readBack(log raft.LogStore, stable raft.StableStore, snapshots raft.SnapshotStore, enough func(*Stored) bool) (*Stored, error) {
	out := &Stored{State: &meta.State{}}
	from, err := out.restore(snapshots)
	if err != nil {
		return nil, err
	}
	agreed, err := agreedIn(stable)
	if err != nil {
		return nil, err
	}
	if out.LastIndex, err = log.LastIndex(); err != nil {
		return nil, fmt.Errorf("metadata log: %w", err)
	}
	out.LastIndex = max(out.LastIndex, from)
	for i := from + 1; i <= out.LastIndex; i++ {
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil {
			return nil, fmt.Errorf("metadata log: entry %d: %w", i, err)
		}
		if err := out.replay(&l, agreed); err != nil {
			return nil, err
		}
		if enough != nil && enough(out) {
			break
		}
	}
	return out, nil
}

// restore starts from the newest snapshot, and returns its index; 0 if there is none.
func (o *Stored) restore(snapshots raft.SnapshotStore) (uint64, error) {
	all, err := snapshots.List()
	if err != nil {
		return 0, fmt.Errorf("metadata snapshots: %w", err)
	}
	if len(all) == 0 {
		return 0, nil
	}
	m, r, err := snapshots.Open(all[0].ID)
	if err != nil {
		return 0, fmt.Errorf("metadata snapshot %s: %w", all[0].ID, err)
	}
	o.State, err = meta.DecodeSnapshot(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return 0, fmt.Errorf("metadata snapshot %s: %w", all[0].ID, err)
	}
	o.Configuration = configurationOf(m.Configuration)
	return m.Index, nil
}

// replay applies one entry.
func (o *Stored) replay(l *raft.Log, agreed uint64) error {
	switch l.Type { //nolint:exhaustive // the others change nothing
	case raft.LogConfiguration:
		o.Configuration = configurationOf(raft.DecodeConfiguration(l.Data))
	case raft.LogCommand:
		c, err := meta.DecodeCommand(l.Data)
		if err != nil {
			return fmt.Errorf("metadata log: entry %d: %w", l.Index, err)
		}
		meta.ApplyAt(o.State, l.Index, meta.CommandTime(l.Data), c)
		if err := meta.CheckLevel(o.State, level.Supported()); err != nil {
			return fmt.Errorf("metadata log: entry %d: %w", l.Index, err)
		}
		if l.Index > agreed {
			o.Unsure = append(o.Unsure, Entry{l.Index, c})
		}
	}
	return nil
}

func configurationOf(c raft.Configuration) (out Configuration) {
	for _, v := range c.Servers {
		out.Members = append(out.Members, Member{ID: meta.NodeID(v.ID), Address: string(v.Address), Voter: v.Suffrage == raft.Voter})
	}
	slices.SortFunc(out.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// agreedKey is the key of the index up to which everything is known to be committed. The consensus
// library keeps that only in memory.
const agreedKey = "brokerd.AgreedIndex"

// agreedEvery is how long a change of that index may wait to be stored.
const agreedEvery = time.Second

// agreedIn reads the index; 0: none is stored.
func agreedIn(s raft.StableStore) (uint64, error) {
	index, err := s.GetUint64([]byte(agreedKey))
	if err != nil && !errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return 0, fmt.Errorf("metadata log: %w", err)
	}
	return index, nil
}

// ledger records on disk how far the entries of a Store are committed.
type ledger struct{ of *Store }

// keep stores the committed index, a while after it has changed and when the store is closed. It is
// for reading the disk later without other nodes. Nothing else depends on it, so an error is
// ignored.
func (s ledger) keep() {
	var noted uint64
	note := func() {
		if index := s.of.raft.CommitIndex(); index > noted && s.of.guard.storage.SetUint64([]byte(agreedKey), index) == nil {
			noted = index
		}
	}
	for {
		changed := s.of.Changed()
		select {
		case <-changed:
		case <-s.of.failed:
			return
		case <-s.of.stop:
			note()
			return
		}
		again := time.NewTimer(agreedEvery)
		select {
		case <-again.C:
			note()
		case <-s.of.failed:
			again.Stop()
			return
		case <-s.of.stop:
			again.Stop()
			note()
			return
		}
	}
}

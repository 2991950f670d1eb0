package raftstore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Names in the directory of a store.
const (
	logFile      = "raft.db"
	identityFile = "identity.json"
	reserveFile  = "reserve"
	snapshotsDir = "snapshots" // name chosen by the library
	snapshotTmp  = ".tmp"      // suffix of an incomplete one
)

// identity records that a store was created here, and for which node. It is written once the
// store's first state is on disk: from then on, an identity without a log means a loss.
type identity struct {
	Format int         `json:"format"`
	NodeID meta.NodeID `json:"node_id"`
}

const identityFormat = 1

// corruptError names the damaged file of the metadata. Its fate is fate.Corrupt.
type corruptError struct {
	Path string
	Err  error
}

// Error implements error.
func (e *corruptError) Error() string { return fmt.Sprintf("metadata file %s: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *corruptError) Unwrap() error { return e.Err }

// Fate returns fate.Corrupt.
func (e *corruptError) Fate() fate.Fate { return fate.Corrupt }

// contents is the content of a directory before it is opened.
type contents struct {
	made bool   // a store was created here
	snap uint64 // index of the newest snapshot; 0 if none
	log  found
}

// explain adds to an error about damage its consequence and what to do.
func explain(err error) error {
	if fate.Of(err) != fate.Corrupt {
		return err
	}
	return fmt.Errorf("%w: the node cannot start without its metadata; nothing was changed. If a majority of the other nodes is healthy, "+
		"move the data directory away, do not delete it (partitions without another replica are only in it), and start with an empty one and the same node id: "+
		"the others are copied again. Otherwise, with a snapshot of the metadata: brokerd recover --only-survivor --snapshot FILE (docs/operations/runbooks.md); "+
		"without one, restore the directory from a backup", err)
}

// verify checks everything in a directory before it is used. The consensus library itself starts
// from what it can read, so unreadable parts must be found here.
func verify(dir string, id meta.NodeID) (c contents, err error) {
	if c.made, err = readIdentity(filepath.Join(dir, identityFile), id); err != nil {
		return c, err
	}
	if c.snap, err = verifySnapshots(filepath.Join(dir, snapshotsDir)); err != nil {
		return c, err
	}
	path := filepath.Join(dir, logFile)
	if c.log, err = verifyLog(path); err != nil {
		return c, err
	}
	switch {
	case (c.made || c.snap != 0) && !c.log.begun, c.made && c.snap == 0 && c.log.first == 0:
		return c, fmt.Errorf("%w: log %s is missing or empty", errLost, path)
	case c.log.first > c.snap+1:
		return c, fmt.Errorf("%w: log %s begins at entry %d, but the last snapshot ends at %d", errLost, path, c.log.first, c.snap)
	}
	return c, nil
}

func readIdentity(path string, id meta.NodeID) (bool, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("metadata identity: %w", err)
	}
	var who identity
	if err := json.Unmarshal(text, &who); err != nil {
		return true, &corruptError{path, err}
	}
	if who.Format != identityFormat {
		return true, fmt.Errorf("metadata in %s has format %d, this version supports %d", filepath.Dir(path), who.Format, identityFormat)
	}
	if who.NodeID == "" {
		return true, &corruptError{path, errors.New("node id missing")}
	}
	if who.NodeID != id {
		return true, fmt.Errorf("%w: %s belongs to node %q, this is node %q", ErrOtherNode, filepath.Dir(path), who.NodeID, id)
	}
	return true, nil
}

// StoredNode returns the node id of the store in a directory; "" if none or unknown.
func StoredNode(dir string) meta.NodeID {
	text, err := os.ReadFile(filepath.Join(dir, identityFile))
	var who identity
	if err != nil || json.Unmarshal(text, &who) != nil {
		return ""
	}
	return who.NodeID
}

// writeIdentity writes the file completely or not at all. An existing file with the same content
// stays: a store must open on a full disk.
func writeIdentity(dir string, id meta.NodeID) error {
	if StoredNode(dir) == id {
		return nil
	}
	text, err := json.Marshal(identity{identityFormat, id})
	if err != nil {
		return err
	}
	if err := vfs.WriteFileSynced(vfs.OS{}, filepath.Join(dir, identityFile), append(text, '\n')); err != nil {
		return fmt.Errorf("metadata identity: %w", err)
	}
	return nil
}

// verifySnapshots reads the newest snapshot completely and the descriptions of the others, and
// returns the index of the newest; 0 if there is none.
func verifySnapshots(dir string) (uint64, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("metadata snapshots: %w", err)
	}
	var newest raft.SnapshotMeta
	for _, e := range entries {
		if !e.IsDir() || strings.HasSuffix(e.Name(), snapshotTmp) {
			continue
		}
		path := filepath.Join(dir, e.Name(), "meta.json")
		text, err := os.ReadFile(path)
		var m raft.SnapshotMeta
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err != nil {
			return 0, &corruptError{path, err}
		}
		if newer(&m, &newest) {
			newest = m
		}
	}
	if newest.ID == "" {
		return 0, nil
	}
	return newest.Index, verifySnapshot(filepath.Dir(dir), newest.ID)
}

// newer reports whether the consensus library prefers to start from a over b.
func newer(a, b *raft.SnapshotMeta) bool {
	return cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.Index, b.Index), cmp.Compare(a.ID, b.ID)) > 0
}

func verifySnapshot(base, id string) error {
	path := filepath.Join(base, snapshotsDir, id, "state.bin")
	store, err := raft.NewFileSnapshotStore(base, snapshotsRetained, io.Discard)
	if err != nil {
		return fmt.Errorf("metadata snapshots: %w", err)
	}
	_, r, err := store.Open(id)
	if err != nil {
		return &corruptError{path, err}
	}
	_, err = meta.DecodeSnapshot(r)
	switch err = errors.Join(err, r.Close()); {
	case errors.Is(err, failure.FeatureLevel), errors.Is(err, meta.ErrUnknownSnapshot):
		return fmt.Errorf("metadata snapshot %s: %w", path, err) // intact, but not for this program
	case err != nil:
		return &corruptError{path, err}
	}
	return nil
}

// found is the content of a log file.
type found struct {
	begun       bool   // a term was recorded: the store has been used
	first, last uint64 // entries; 0 if there are none
}

// verifyLog reads a log completely. The storage trusts its pages, and panics or faults on a damaged
// one: both become errors here.
func verifyLog(path string) (f found, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return found{}, nil
	}
	if err != nil {
		return found{}, fmt.Errorf("metadata log: %w", err)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &corruptError{path, fmt.Errorf("%v", p)}
		}
	}()
	store, err := raftboltdb.New(raftboltdb.Options{
		Path: path, BoltOptions: &bbolt.Options{ReadOnly: true, Timeout: fileLockTimeout},
	})
	if err != nil {
		if errors.Is(err, bbolterrors.ErrTimeout) || errors.Is(err, fs.ErrPermission) {
			return found{}, fmt.Errorf("metadata log %s: %w", path, err)
		}
		return found{}, &corruptError{path, err}
	}
	f, err = readLog(store)
	if err = errors.Join(err, store.Close(), checkLength(path, info.Size())); err != nil {
		return f, &corruptError{path, err}
	}
	return f, nil
}

// checkLength detects a log file that is shorter than its storage made it. The missing pages may
// have been free, and would be written next.
func checkLength(path string, size int64) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: fileLockTimeout})
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		if want := tx.Size(); size < want {
			return fmt.Errorf("file truncated: %d bytes missing", want-size)
		}
		return nil
	})
	return errors.Join(err, db.Close())
}

func readLog(s *raftboltdb.BoltStore) (f found, err error) {
	term, err := s.GetUint64([]byte("CurrentTerm"))
	if err != nil && !errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return f, err
	}
	if f.first, err = s.FirstIndex(); err != nil {
		return f, err
	}
	if f.last, err = s.LastIndex(); err != nil {
		return f, err
	}
	f.begun = term > 0
	var before uint64
	for i := f.first; i != 0 && i <= f.last; i++ {
		var l raft.Log
		if err := s.GetLog(i, &l); err != nil {
			return f, fmt.Errorf("entry %d: %w", i, err)
		}
		if err := checkEntry(&l, i); err != nil {
			return f, err
		}
		if l.Term < before || f.begun && l.Term > term {
			return f, fmt.Errorf("entry %d: term %d after term %d, current term is %d", i, l.Term, before, term)
		}
		before = l.Term
	}
	return f, nil
}

func checkEntry(l *raft.Log, index uint64) error {
	if l.Index != index {
		return fmt.Errorf("entry %d has index %d", index, l.Index)
	}
	switch l.Type {
	case raft.LogCommand:
		if _, err := meta.DecodeCommand(l.Data); err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
	case raft.LogConfiguration:
		if c := raft.DecodeConfiguration(l.Data); len(c.Servers) == 0 {
			return fmt.Errorf("entry %d: configuration without voters", index)
		}
	case raft.LogNoop, raft.LogBarrier:
	default:
		return fmt.Errorf("entry %d: unknown type %d", index, l.Type)
	}
	return nil
}

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Ledger is the durable list of the replicas that this node has created on its
// disk. It is outside of their directories, so that a replica whose directory is
// gone is distinguished from one that was never created: the latter has lost
// nothing, however long the metadata has named it. A replica is entered before it
// has a role, and so before it acknowledges anything, and stays entered until its
// topic is purged. Its methods are safe for concurrent use.
type Ledger struct {
	fs   vfs.FS
	dir  string // holds an empty file for each entry
	data Dir    // has the replicas

	mu      sync.Mutex // guards entries
	entries map[string]struct{}
}

// NewLedger returns the ledger of a data directory. Dir.Claim reads it.
func NewLedger(d Dir) *Ledger {
	return &Ledger{fs: d.FS, dir: d.replicas(), data: d, entries: map[string]struct{}{}}
}

// Path is the path of the ledger.
func (l *Ledger) Path() string { return l.dir }

// load reads the ledger from disk, and reports whether it exists.
func (l *Ledger) load() (there bool, err error) {
	names, err := l.fs.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		l.entries[name] = struct{}{}
	}
	return true, nil
}

// create replaces the ledger, if there is one, by one with these entries. After
// a crash either the old or the new one exists.
func (l *Ledger) create(names []string) error {
	temp := l.dir + vfs.TempSuffix
	if err := l.fs.RemoveAll(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := vfs.MkdirAllSynced(l.fs, temp); err != nil {
		return err
	}
	for _, name := range names {
		if err := vfs.MarkSynced(l.fs, filepath.Join(temp, name)); err != nil {
			return err
		}
	}
	if err := l.fs.RemoveAll(l.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(l.fs.Rename(temp, l.dir), l.fs.SyncDir(filepath.Dir(l.dir))); err != nil {
		return err
	}
	_, err := l.load()
	return err
}

// Has reports whether a replica of this name was entered.
func (l *Ledger) Has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.entries[name]
	return ok
}

// Enter adds a replica. That is durable when Enter returns.
func (l *Ledger) Enter(name string) error {
	if l.Has(name) {
		return nil
	}
	if err := vfs.MarkSynced(l.fs, filepath.Join(l.dir, name)); err != nil {
		return fmt.Errorf("add replica %s to ledger: %w", name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[name] = struct{}{}
	return nil
}

// drop removes entries. An entry that reappears after a crash is dropped at the
// next start.
func (l *Ledger) drop(old func(entry string) bool) error {
	l.mu.Lock()
	var names []string
	for name := range l.entries {
		if old(name) {
			names = append(names, name)
			delete(l.entries, name)
		}
	}
	l.mu.Unlock()
	var errs []error
	for _, name := range names {
		if err := l.fs.Remove(filepath.Join(l.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Forget drops the entries of a topic.
func (l *Ledger) Forget(topic string, in meta.Incarnation) error {
	return l.drop(func(entry string) bool {
		t, i, _, ok := parseReplicaName(entry)
		return ok && t == topic && i == in
	})
}

// Trim drops the entries of replicas that the metadata no longer assigns to a
// node and that have no directory. No replica may be opened meanwhile, because
// newer metadata than s may assign it.
func (l *Ledger) Trim(s *meta.State, self meta.NodeID) error {
	return l.drop(func(entry string) bool { return !mayHold(s, self, entry) && !l.onDisk(entry) })
}

// onDisk reports whether the replica of an entry has a directory, or may have one.
func (l *Ledger) onDisk(entry string) bool {
	topic, in, i, ok := parseReplicaName(entry)
	if !ok {
		return false
	}
	_, err := l.fs.Stat(filepath.Join(l.data.Topics(), TopicName(topic, in), strconv.Itoa(i)))
	return !errors.Is(err, fs.ErrNotExist)
}

// mayHold reports whether the metadata assigns the replica of an entry to a node,
// or does not know its topic yet.
func mayHold(s *meta.State, self meta.NodeID, entry string) bool {
	topic, in, i, ok := parseReplicaName(entry)
	if !ok {
		return false
	}
	t := s.Topic(topic)
	if t == nil || t.Incarnation != in {
		t = meta.TrashOf(s).Topic(topic, in) // it may be restored
	}
	if t == nil {
		return uint64(in) > s.Index()
	}
	return i < len(t.Partitions) && slices.Contains(t.Partitions[i].Replicas, self)
}

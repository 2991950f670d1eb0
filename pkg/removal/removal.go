package removal

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Options configure a Remover.
type Options struct {
	Dirs   datadir.Dir
	Ledger *datadir.Ledger // of the replicas created on this node
	Self   meta.NodeID
	Log    *slog.Logger
	Go     func(func()) bool // runs a long operation in the background, unless the node is closing
}

// Remover deletes data from the disk of one node. Its methods are safe for
// concurrent use, except that Deleted and Review of one topic must not run
// concurrently.
type Remover struct {
	o Options

	removing atomic.Int64 // directories that are being deleted

	mu    sync.Mutex // guards what follows
	kept  map[string][]meta.Incarnation
	bytes map[meta.Incarnation]int64 // size of the kept data, measured when it was first kept
}

// New returns a Remover that has removed nothing yet.
func New(o Options) *Remover {
	return &Remover{o: o, kept: map[string][]meta.Incarnation{}, bytes: map[meta.Incarnation]int64{}}
}

// Remove moves a directory aside, under a unique name that begins with as, and deletes it in the
// background, or at the next start if the node closes before.
func (r *Remover) Remove(dir, as string) error {
	name, err := r.o.Dirs.Move(dir, r.o.Dirs.Trash(), as)
	if name != "" {
		r.delete(name)
	}
	return err
}

// delete deletes a directory that was moved aside.
func (r *Remover) delete(name string) {
	path := filepath.Join(r.o.Dirs.Trash(), name)
	r.removing.Add(1)
	if r.o.Go(func() {
		defer r.removing.Add(-1)
		if err := r.o.Dirs.FS.RemoveAll(path); err != nil {
			r.o.Log.Warn("cannot remove data of deleted topic; retrying at the next start", "path", path, "error", err)
		}
	}) {
		return
	}
	r.removing.Add(-1) // the node closes
}

// Deleted removes the node's data of a topic that is no longer in the metadata. Data of a
// topic in the trash of s stays, for Review.
func (r *Remover) Deleted(name string, in meta.Incarnation, s *meta.State) error {
	if meta.TrashOf(s).Holds(name, in) {
		r.keep(name, in)
		return nil
	}
	dir := r.o.Dirs.Topic(name, in)
	return errors.Join(r.Remove(dir, filepath.Base(dir)), r.o.Ledger.Forget(name, in))
}

func (r *Remover) keep(name string, in meta.Incarnation) {
	size := r.sizeOf(r.o.Dirs.Topic(name, in))
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.kept[name], in) {
		r.kept[name] = append(r.kept[name], in)
	}
	r.bytes[in] = size
}

// sizeOf returns the total size of the files in the subdirectories of a directory.
// Unreadable files do not count.
func (r *Remover) sizeOf(dir string) (bytes int64) {
	files := r.o.Dirs.FS
	parts, _ := files.ReadDir(dir)
	for _, part := range parts {
		names, _ := files.ReadDir(filepath.Join(dir, part))
		for _, name := range names {
			if info, err := files.Stat(filepath.Join(dir, part, name)); err == nil {
				bytes += info.Size()
			}
		}
	}
	return bytes
}

// Kept returns the number of deleted topics whose data the node keeps, and its size in
// bytes. It does not access the disk.
func (r *Remover) Kept() (topics int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.bytes {
		bytes += n
	}
	return len(r.bytes), bytes
}

// Review removes the kept data of topics with a name that have left the trash of s: all
// of it or, of a topic that was restored, the copies that are no longer replicas. No
// replica of the topic may be open.
func (r *Remover) Review(name string, s *meta.State) error {
	var errs []error
	for _, in := range r.popKept(name, s) {
		if t := s.Topic(name); t != nil && t.Incarnation == in {
			r.sweepPartitions(r.o.Dirs.Topic(name, in), t)
		} else {
			errs = append(errs, r.Deleted(name, in, s))
		}
	}
	return errors.Join(errs...)
}

// popKept removes from the list of kept topics those with a name that are not in the trash,
// and returns them.
func (r *Remover) popKept(name string, s *meta.State) []meta.Incarnation {
	r.mu.Lock()
	defer r.mu.Unlock()
	var left, gone []meta.Incarnation
	for _, in := range r.kept[name] {
		if meta.TrashOf(s).Holds(name, in) {
			left = append(left, in)
		} else {
			gone = append(gone, in)
			delete(r.bytes, in)
		}
	}
	if len(left) > 0 {
		r.kept[name] = left
	} else {
		delete(r.kept, name)
	}
	return gone
}

// Busy reports whether data is being deleted, so that there will be more space
// soon.
func (r *Remover) Busy() bool { return r.removing.Load() > 0 }

// Oldest returns the topic that has been in the trash for longest, among those of which the
// node has at least least bytes, and at least one; nil if there is none.
func (r *Remover) Oldest(s *meta.State, least int64) *meta.Deleted {
	for d := range meta.TrashOf(s).All() {
		if r.keeps(d.Topic) && r.holds(d.Topic, least) {
			return d
		}
	}
	return nil
}

func (r *Remover) keeps(t *meta.Topic) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.kept[t.Name], t.Incarnation)
}

// holds reports whether the files of a topic have at least n bytes. Unreadable files do not count.
func (r *Remover) holds(t *meta.Topic, least int64) bool {
	files := r.o.Dirs.FS
	for i := range t.Partitions {
		dir := r.o.Dirs.Replica(t, i)
		names, _ := files.ReadDir(dir)
		for _, name := range names {
			if info, err := files.Stat(filepath.Join(dir, name)); err == nil {
				least -= info.Size()
			}
			if least <= 0 {
				return true
			}
		}
	}
	return false
}

// Sweep finishes deletions that a crash interrupted. A directory whose topic is not in the
// metadata belongs to a deleted topic if the metadata is past the index at which it was
// created; otherwise it is kept, logged and counted. A replica that the metadata assigns to
// other nodes was moved while this node was down, if the ledger names it; otherwise it came
// from another disk, and is kept, logged and counted, too. No replica may be opened
// meanwhile.
func (r *Remover) Sweep(s *meta.State) (strays int) {
	if left, err := r.o.Dirs.FS.ReadDir(r.o.Dirs.Trash()); err == nil {
		for _, name := range left {
			r.delete(name)
		}
	}
	defer func() {
		if err := r.o.Ledger.Trim(s, r.o.Self); err != nil {
			r.o.Log.Warn("cannot remove obsolete ledger entries; retrying at the next start", "path", r.o.Ledger.Path(), "error", err)
		}
	}()
	dirs, err := r.o.Dirs.FS.ReadDir(r.o.Dirs.Topics())
	if err != nil {
		return 0
	}
	for _, dir := range dirs {
		path := filepath.Join(r.o.Dirs.Topics(), dir)
		name, in, ok := datadir.ParseTopicName(dir)
		switch t := s.Topic(name); {
		case ok && t != nil && t.Incarnation == in:
			strays += r.sweepPartitions(path, t)
		case !ok || in > meta.Incarnation(s.Index()):
			strays++
			r.o.Log.Error("directory belongs to no known topic; kept unchanged", "path", path)
		case meta.TrashOf(s).Holds(name, in):
			r.keep(name, in)
		default:
			if err := r.Remove(path, dir); err != nil {
				r.o.Log.Warn("cannot move data of deleted topic to trash; retrying at the next start", "path", path, "error", err)
			}
		}
	}
	return strays
}

// sweepPartitions removes this node's replicas of a topic that are assigned to other nodes
// now, and returns how many are there that this node has not created.
func (r *Remover) sweepPartitions(dir string, t *meta.Topic) (strays int) {
	parts, err := r.o.Dirs.FS.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, part := range parts {
		i, err := strconv.Atoi(part)
		if err != nil || i < 0 || i >= len(t.Partitions) || slices.Contains(t.Partitions[i].Replicas, r.o.Self) {
			continue
		}
		path := filepath.Join(dir, part)
		content, err := r.o.Dirs.FS.ReadDir(path)
		nothing := err == nil && len(content) == 0 // it is entered after its directory is created
		if !nothing && !r.o.Ledger.Has(datadir.ReplicaName(t.Name, t.Incarnation, i)) {
			strays++
			r.o.Log.Error("replica is assigned to other nodes, and was not created by this one; kept unchanged: it may be another node's only copy",
				"path", path, "assigned", t.Partitions[i].Replicas)
			continue
		}
		if err := r.Remove(path, datadir.AsideName(t.Name, t.Incarnation, i, t.Partitions[i].Version)); err != nil {
			r.o.Log.Warn("cannot move replica that is no longer assigned here to trash; retrying at the next start", "path", path, "error", err)
		}
	}
	return strays
}

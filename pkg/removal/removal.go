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

// Options say whose data is removed.
type Options struct {
	Dirs   datadir.Dir
	Ledger *datadir.Ledger // of the replicas made here
	Self   meta.NodeID
	Log    *slog.Logger
	Go     func(func()) bool // runs what may take long, unless the node is closing
}

// Remover takes data off the disk of one node. Its methods may be called by many
// goroutines, Deleted and Review of one topic by one at a time.
type Remover struct {
	o Options

	removing atomic.Int64 // directories that are being deleted

	mu    sync.Mutex // guards what follows
	kept  map[string][]meta.Incarnation
	bytes map[meta.Incarnation]int64 // of what is kept, as it was when it came
}

// New returns a remover that has removed nothing yet.
func New(o Options) *Remover {
	return &Remover{o: o, kept: map[string][]meta.Incarnation{}, bytes: map[meta.Incarnation]int64{}}
}

// Remove moves a directory aside, under a name that no other there ever has, and
// deletes it in the background; where the node closes, at its next start.
func (r *Remover) Remove(dir, as string) error {
	if err := r.o.Dirs.Move(dir, r.o.Dirs.Trash(), as); err != nil {
		return err
	}
	r.delete(as)
	return nil
}

// delete ends what was moved aside.
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

// Deleted removes what the node has of a topic that metadata does not have any more. What
// is in the trash of s stays, for Review.
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

// sizeOf returns how many bytes the files in the directories of a directory have. What
// cannot be read counts as nothing.
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

// Kept returns how many deleted topics the node keeps data of, and how many bytes that has.
// It does not touch the disk.
func (r *Remover) Kept() (topics int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.bytes {
		bytes += n
	}
	return len(r.bytes), bytes
}

// Review removes what the node has kept of topics of a name that have left the trash of
// s: all of it, or of one that was restored the copies that are not replicas any more. No
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

// popKept returns what is kept of topics of a name and not in the trash, and keeps it no more.
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

// Busy reports whether something is being deleted: there will be more room soon.
func (r *Remover) Busy() bool { return r.removing.Load() > 0 }

// Oldest returns the topic that has been in the trash for longest of those of which the node
// has at least so many bytes, and one; nil if none.
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

// holds reports whether the files of a topic have so many bytes. What cannot be read has none.
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

// Sweep finishes deletions that a crash interrupted. A directory whose topic
// metadata does not know is a deleted topic's if metadata is past the
// index that created it; otherwise it is left alone, said, and counted. The same goes for
// a partition of which the metadata says that it is held elsewhere. No replica may be opened
// meanwhile.
func (r *Remover) Sweep(s *meta.State) (strays int) {
	if left, err := r.o.Dirs.FS.ReadDir(r.o.Dirs.Trash()); err == nil {
		for _, name := range left {
			r.delete(name)
		}
	}
	if err := r.o.Ledger.Trim(s, r.o.Self); err != nil {
		r.o.Log.Warn("cannot remove obsolete ledger entries; retrying at the next start", "path", r.o.Ledger.Path(), "error", err)
	}
	dirs, err := r.o.Dirs.FS.ReadDir(r.o.Dirs.Topics())
	if err != nil {
		return 0
	}
	for _, dir := range dirs {
		path := filepath.Join(r.o.Dirs.Topics(), dir)
		name, in, ok := datadir.ParseTopicName(dir)
		switch t := s.Topic(name); {
		case ok && t != nil && t.Incarnation == in:
			r.sweepPartitions(path, t)
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

// sweepPartitions moves replicas aside that went to other nodes while this one
// was away.
func (r *Remover) sweepPartitions(dir string, t *meta.Topic) {
	parts, err := r.o.Dirs.FS.ReadDir(dir)
	if err != nil {
		return
	}
	for _, part := range parts {
		i, err := strconv.Atoi(part)
		if err != nil || i < 0 || i >= len(t.Partitions) || slices.Contains(t.Partitions[i].Replicas, r.o.Self) {
			continue
		}
		path := filepath.Join(dir, part)
		if err := r.Remove(path, datadir.AsideName(t.Name, t.Incarnation, i, t.Partitions[i].Version)); err != nil {
			r.o.Log.Warn("cannot move replica that is no longer assigned here to trash; retrying at the next start", "path", path, "error", err)
		}
	}
}

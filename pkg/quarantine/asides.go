package quarantine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Asides handles the copies that a node has set aside. Its methods are safe for concurrent use.
type Asides struct {
	o        Options
	suspects *Suspects
	waiting  atomic.Pointer[[]string]
}

// Add moves the data of a replica to the set-aside copies.
func (q *Asides) Add(t *meta.Topic, i int) error {
	_, err := q.o.Dirs.Move(q.o.Dirs.Replica(t, i), q.o.Dirs.Quarantine(), datadir.AsideName(t.Name, t.Incarnation, i, t.Partitions[i].Version))
	return err
}

// Waiting returns the partitions with a copy that waits for an operator, as TOPIC/PARTITION, as of the last Release.
func (q *Asides) Waiting() []string { return *q.waiting.Load() }

// Each calls f for each set-aside copy on this node. t is nil if the metadata has deleted the
// topic.
func (q *Asides) Each(f func(t *meta.Topic, i int, name string)) error {
	names, err := q.o.Dirs.FS.ReadDir(q.o.Dirs.Quarantine())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s := q.o.Meta.View()
	for _, name := range names {
		topic, in, i, ok := datadir.ParseAsideName(name)
		if !ok {
			continue
		}
		t := s.Topic(topic)
		if t != nil && (t.Incarnation != in || i >= len(t.Partitions)) {
			t = nil
		}
		if t == nil && (in > meta.Incarnation(s.Index()) || meta.TrashOf(s).Holds(topic, in)) {
			continue // keep: the metadata may be behind or lost, or the topic may still be restored
		}
		f(t, i, name)
	}
	return nil
}

// Release deletes the copies that an in-sync replica has replaced, and those of deleted topics. It
// keeps all others; Waiting names those that wait for an operator.
func (q *Asides) Release() {
	waiting := []string{}
	err := q.Each(func(t *meta.Topic, i int, name string) {
		if t != nil {
			if s := q.judge(t, i, name); s.Why != "" {
				if s.Waits {
					waiting = append(waiting, fmt.Sprintf("%s/%d", t.Name, i))
				}
				return
			}
		}
		if err := q.o.Removal.Remove(filepath.Join(q.o.Dirs.Quarantine(), name), name); err != nil {
			q.o.Log.Warn("cannot delete obsolete set-aside copy; retrying at the next check", "path", name, "error", err)
		}
	})
	if err != nil {
		q.o.Log.Warn("cannot list set-aside copies; keeping all of them", "path", q.o.Dirs.Quarantine(), "error", err)
		return
	}
	q.waiting.Store(&waiting)
}

// judge describes a set-aside copy, and why it is kept.
func (q *Asides) judge(t *meta.Topic, i int, name string) api.SetAsideCopy {
	s := api.SetAsideCopy{Node: string(q.o.Self), Name: name, Path: filepath.Join(q.o.Dirs.Quarantine(), name)}
	old, err := commitlog.Inspect(q.o.Dirs.FS, s.Path, nil)
	if err != nil {
		s.Unreadable = err.Error()
	}
	s.LogStart, s.CommittedEnd, s.LogEnd, s.Damage = uint64(old.Start), uint64(old.CommittedEnd), uint64(old.End), DamageRanges(old.Damaged)
	live := q.o.Live(t.Name, i)
	switch p := &t.Partitions[i]; {
	case !slices.Contains(p.Replicas, q.o.Self):
		s.Why, s.Waits = "the node no longer holds a replica of the partition", true
	case live == nil || !slices.Contains(p.ISR, q.o.Self):
		s.Why, s.Waits = "the replica on the node is not in sync yet", !q.suspects.CanCopy(p)
	case p.Unclean > 0:
		s.Why, s.Waits = "after an unclean election, this copy may hold messages that the partition lacks", true
	case s.Unreadable != "":
		s.Why, s.Waits = "its log is unreadable", true
	case live.End() < old.End || live.CommittedEnd() < old.CommittedEnd:
		s.Why, s.Waits = "it extends beyond the replica on the node", true
	}
	return s
}

// Of returns the set-aside copies of a partition on this node.
func (q *Asides) Of(a meta.PartitionID) (all []api.SetAsideCopy, err error) {
	err = q.Each(func(t *meta.Topic, i int, name string) {
		if t != nil && t.Name == a.Topic && t.Incarnation == a.Incarnation && i == a.Partition {
			all = append(all, q.judge(t, i, name))
		}
	})
	return all, err
}

// Discard deletes a set-aside copy, whatever it holds.
func (q *Asides) Discard(a meta.PartitionID, name string) error {
	found := error(failure.NoSetAside)
	err := q.Each(func(t *meta.Topic, i int, n string) {
		if n != name || t == nil || t.Name != a.Topic || t.Incarnation != a.Incarnation || i != a.Partition {
			return
		}
		q.o.Log.Warn("set-aside copy deleted by operator", "topic", t.Name, "partition", i, "path", name)
		found = q.o.Removal.Remove(filepath.Join(q.o.Dirs.Quarantine(), name), name)
	})
	if err = errors.Join(err, found); err == nil {
		q.Release() // update health
	}
	return err
}

// DamageRanges returns damaged ranges in the form of /v1.
func DamageRanges(all []commitlog.Damage) []api.DamageRange {
	out := make([]api.DamageRange, len(all))
	for i, d := range all {
		out[i] = api.DamageRange{File: d.Path, Position: d.Position, From: uint64(d.From), Next: uint64(d.Next)}
	}
	return out
}

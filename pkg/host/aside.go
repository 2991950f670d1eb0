package host

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/removal"
)

// setAside moves a replica's data below quarantine/.
func (q *Quarantine) setAside(h *Topic, t *meta.Topic, i int) error {
	dir := q.dirs.Replica(t, i)
	q.damage.Forget(dir)
	_, err := q.dirs.Move(dir, q.dirs.Quarantine(), datadir.AsideName(h.Name, h.Incarnation, i, t.Partitions[i].Version))
	return err
}

// asides handles the copies that this node has set aside.
type asides struct {
	o        *Options
	log      *slog.Logger
	dirs     datadir.Dir
	topics   *Topics
	removal  *removal.Remover
	suspects *suspicion
	waiting  atomic.Pointer[[]string] // partitions with a set-aside copy that waits for an operator
}

// each calls f for each set-aside copy on this node. t is nil if the metadata has deleted the
// topic.
func (q *asides) each(f func(t *meta.Topic, i int, name string)) error {
	names, err := q.o.FS.ReadDir(q.dirs.Quarantine())
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

// release deletes the copies that an in-sync replica has replaced, and those of deleted topics. It
// keeps all others; health names those that wait for an operator.
func (q *asides) release() {
	waiting := []string{}
	err := q.each(func(t *meta.Topic, i int, name string) {
		if t != nil {
			if s := q.judge(t, i, name); s.Why != "" {
				if s.Waits {
					waiting = append(waiting, fmt.Sprintf("%s/%d", t.Name, i))
				}
				return
			}
		}
		if err := q.removal.Remove(filepath.Join(q.dirs.Quarantine(), name), name); err != nil {
			q.log.Warn("cannot delete obsolete set-aside copy; retrying at the next check", "path", name, "error", err)
		}
	})
	if err != nil {
		q.log.Warn("cannot list set-aside copies; keeping all of them", "path", q.dirs.Quarantine(), "error", err)
		return
	}
	q.waiting.Store(&waiting)
}

// judge describes a set-aside copy, and why it is kept.
func (q *asides) judge(t *meta.Topic, i int, name string) api.SetAsideCopy {
	s := api.SetAsideCopy{Node: string(q.o.Self), Name: name, Path: filepath.Join(q.dirs.Quarantine(), name)}
	old, err := commitlog.Inspect(q.o.FS, s.Path, nil)
	if err != nil {
		s.Unreadable = err.Error()
	}
	s.LogStart, s.CommittedEnd, s.LogEnd, s.Damage = uint64(old.Start), uint64(old.CommittedEnd), uint64(old.End), damageRanges(old.Damaged)
	var live *commitlog.Log
	if h := q.topics.Lookup(t.Name); h != nil && h.Held(i) != nil {
		live = h.Held(i).Replica.Log()
	}
	switch p := &t.Partitions[i]; {
	case !slices.Contains(p.Replicas, q.o.Self):
		s.Why, s.Waits = "the node no longer holds a replica of the partition", true
	case live == nil || !slices.Contains(p.ISR, q.o.Self):
		s.Why, s.Waits = "the replica on the node is not in sync yet", !q.suspects.canCopy(p)
	case p.Unclean > 0:
		s.Why, s.Waits = "after an unclean election, this copy may hold messages that the partition lacks", true
	case s.Unreadable != "":
		s.Why, s.Waits = "its log is unreadable", true
	case live.End() < old.End || live.CommittedEnd() < old.CommittedEnd:
		s.Why, s.Waits = "it extends beyond the replica on the node", true
	}
	return s
}

// of returns the set-aside copies of a partition on this node.
func (q *asides) of(a controller.PartitionID) (all []api.SetAsideCopy, err error) {
	err = q.each(func(t *meta.Topic, i int, name string) {
		if t != nil && t.Name == a.Topic && t.Incarnation == a.Incarnation && i == a.Partition {
			all = append(all, q.judge(t, i, name))
		}
	})
	return all, err
}

// discard deletes a set-aside copy, whatever it holds.
func (q *asides) discard(a controller.PartitionID, name string) error {
	found := error(failure.NoSetAside)
	err := q.each(func(t *meta.Topic, i int, n string) {
		if n != name || t == nil || t.Name != a.Topic || t.Incarnation != a.Incarnation || i != a.Partition {
			return
		}
		q.log.Warn("set-aside copy deleted by operator", "topic", t.Name, "partition", i, "path", name)
		found = q.removal.Remove(filepath.Join(q.dirs.Quarantine(), name), name)
	})
	if err = errors.Join(err, found); err == nil {
		q.release() // update health
	}
	return err
}

// Lost reports whether the partition's data on this node is lost and no other replica is in sync.
func (q *Quarantine) Lost(h *Topic, hp *Held) bool {
	return hp.lost.Load() || condition(hp.state.Load()) == missing && !q.elsewhere(h, hp.index)
}

// ForgetLoss ends the health report that the partition's only replica lost its data. The replica
// serves what was published since.
func (q *Quarantine) ForgetLoss(h *Topic, hp *Held) error {
	if !hp.lost.Load() {
		return failure.NoLoss
	}
	if err := h.fs.Remove(filepath.Join(hp.dir, datadir.MarkLost)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := h.fs.SyncDir(hp.dir); err != nil {
		return err
	}
	q.log.Warn("data loss of partition accepted by operator", "topic", h.Name, "partition", hp.index)
	hp.lost.Store(false)
	return nil
}

// SetAside returns the set-aside copies of a partition on this node.
func (q *Quarantine) SetAside(p controller.PartitionID) ([]api.SetAsideCopy, error) {
	return q.asides.of(p)
}

// Discard deletes a set-aside copy of a partition, whatever it holds.
func (q *Quarantine) Discard(p controller.PartitionID, name string) error {
	return q.asides.discard(p, name)
}

// DamageOf returns the known damaged ranges of a replica.
func (q *Quarantine) DamageOf(hp *Held) []api.DamageRange { return damageRanges(q.damage.In(hp.dir)) }

func damageRanges(all []commitlog.Damage) []api.DamageRange {
	out := make([]api.DamageRange, len(all))
	for i, d := range all {
		out[i] = api.DamageRange{File: d.Path, Position: d.Position, From: uint64(d.From), Next: uint64(d.Next)}
	}
	return out
}

package host

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// A replica that was truncated when it was opened may have lost acknowledged messages, because
// damage to the last batches looks like a write that a crash interrupted. It is suspect. The node
// reports that to the metadata before the replica does anything, with the last epoch and the end of
// its log. It is then elected only if all in-sync replicas are suspect and none holds more. The
// leader removes it from the in-sync set, and it joins again like any other, once its log was
// compared with the leader's.

// suspicion handles replicas that may have lost acknowledged messages.
type suspicion struct {
	o      *Options
	log    *slog.Logger
	dirs   datadir.Dir
	life   *life
	topics *Topics

	mu        sync.Mutex                  // guards reporting
	reporting map[suspectKey]meta.Suspect // replicas of this node being reported, and what is reported
}

// mark records on disk that a log is about to be repaired.
func (q *suspicion) mark(h *Topic, t *meta.Topic, i int, r commitlog.Recovery) error {
	if h.fs != q.o.FS || len(t.Partitions[i].Replicas) == 1 {
		return nil // there is no other copy to compare with
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return vfs.WriteFileSynced(h.fs, filepath.Join(q.dirs.Replica(t, i), datadir.MarkSuspect), text)
}

// marked reports whether a replica's log was truncated, at an earlier start, by the names in its
// directory, or at this one, by the result of its recovery.
func (q *suspicion) marked(h *Topic, t *meta.Topic, i int, names []string, r commitlog.Recovery) (bool, error) {
	if r.Clean() {
		return slices.Contains(names, datadir.MarkSuspect), nil
	}
	_, err := h.fs.Stat(filepath.Join(q.dirs.Replica(t, i), datadir.MarkSuspect))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// clear ends a replica's state as suspect on this node.
func (q *suspicion) clear(h *Topic, hp *Held) error {
	if err := h.fs.Remove(filepath.Join(hp.dir, datadir.MarkSuspect)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := h.fs.SyncDir(hp.dir); err != nil {
		return err
	}
	hp.state.CompareAndSwap(int32(suspected), int32(intact))
	return nil
}

// standing returns what the metadata should record of a suspect replica.
func (q *suspicion) standing(hp *Held) meta.Suspect {
	log, state := hp.Replica.Log(), condition(hp.state.Load())
	return meta.Suspect{
		Node: q.o.Self, Epoch: log.LastEpoch(), End: log.End(), Damaged: state == damaged, Missing: state == missing,
	}
}

// reported reports whether the metadata knows everything about a suspect replica.
func (q *suspicion) reported(hp *Held, p *meta.Partition) bool {
	s, known := p.SuspectOf(q.o.Self)
	return known && s == q.standing(hp)
}

// report reports to the metadata that a replica is suspect, and retries until the metadata has it
// or the replica is no longer in sync. A report that comes while an earlier one is in progress
// replaces it.
func (q *suspicion) report(h *Topic, i int, s meta.Suspect) {
	s.Node = q.o.Self
	key := suspectKey{h.Incarnation, i}
	if q.want(key, s) {
		return
	}
	q.life.running.Go(func() {
		for {
			s := q.wanted(key)
			var err error
			if q.unknown(h, i, s) {
				err = q.tryReport(h, i, s)
			}
			switch {
			case err != nil:
				q.log.Warn("cannot report a replica that may have lost messages; retrying", "topic", h.Name, "partition", i, "error", err)
				if !beat.Pause(q.life.ctx, transferAwayRetry) {
					return
				}
			case q.done(key, s):
				return
			}
		}
	})
}

// want records what to report about a replica, and returns whether a report in progress will
// include it.
func (q *suspicion) want(key suspectKey, s meta.Suspect) (underWay bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, underWay = q.reporting[key]
	if q.reporting == nil {
		q.reporting = map[suspectKey]meta.Suspect{}
	}
	q.reporting[key] = s
	return underWay
}

func (q *suspicion) wanted(key suspectKey) meta.Suspect {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.reporting[key]
}

// done ends a report, unless another was requested meanwhile.
func (q *suspicion) done(key suspectKey, s meta.Suspect) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reporting[key] != s {
		return false
	}
	delete(q.reporting, key)
	return true
}

// suspectKey identifies a partition whose replica on this node is being reported.
type suspectKey struct {
	topic     meta.Incarnation
	partition int
}

// unknown reports whether a replica is in sync in the metadata, which does not know that it is
// suspect.
func (q *suspicion) unknown(h *Topic, i int, s meta.Suspect) bool {
	t := q.o.Meta.Topic(h.Name)
	if t == nil || t.Incarnation != h.Incarnation || i >= len(t.Partitions) {
		return false
	}
	p := &t.Partitions[i]
	known, ok := p.SuspectOf(q.o.Self)
	return slices.Contains(p.ISR, q.o.Self) && (!ok || known != s)
}

func (q *suspicion) tryReport(h *Topic, i int, s meta.Suspect) error {
	self := q.o.Meta.Node(q.o.Self)
	if self == nil {
		return failure.NodeNotFound
	}
	ctx, cancel := context.WithTimeout(q.life.ctx, transferAwayTimeout)
	defer cancel()
	r, err := q.o.Meta.Propose(ctx, meta.ReportSuspects{
		Node: self.ID, Incarnation: self.Incarnation,
		Replicas: []meta.SuspectReplica{{Topic: h.Name, Incarnation: h.Incarnation, Partition: i, Suspect: s}},
	})
	return errors.Join(append(r.Failed, err)...)
}

// canCopy reports whether a partition has a leader on another node that is up and not suspect, from
// which a replica here can be copied.
func (q *suspicion) canCopy(p *meta.Partition) bool {
	_, suspect := p.SuspectOf(p.Leader)
	n := q.o.Meta.Node(p.Leader)
	return p.Leader != q.o.Self && n != nil && n.State != meta.NodeDown && !suspect
}

// yield makes another replica lead, which holds messages that this one lacks. The term has ended.
// If that replica was moved to another node meanwhile, this one begins a new epoch, and compares
// logs again.
func (q *suspicion) yield(h *Topic, i int, y coord.Yield) {
	q.log.Error("leader lacks messages held by another replica; transferring leadership to it",
		"topic", h.Name, "partition", i, "epoch", y.Epoch, "to", y.To, "log_end", y.End)
	q.life.running.Go(func() {
		for moved := false; q.topics.leads(h, i, y.Epoch); {
			t := q.o.Meta.Topic(h.Name)
			if t == nil || i >= len(t.Partitions) {
				return
			}
			ctx, cancel := context.WithTimeout(q.life.ctx, transferAwayTimeout)
			r, err := q.o.proposeObserved(ctx, yielding(h, i, y, &t.Partitions[i], moved))
			cancel()
			err = errors.Join(append(r.Failed, err)...)
			if err == nil || fate.Of(err) == fate.Refused && errors.Is(err, failure.StaleEpoch) {
				return
			}
			if !moved && errors.Is(err, failure.NotInISR) {
				moved = true
				continue
			}
			q.log.Warn("cannot transfer leadership to the replica with more messages; retrying", "topic", h.Name, "partition", i, "to", y.To, "error", err)
			if !beat.Pause(q.life.ctx, transferAwayRetry) {
				return
			}
		}
	})
}

// yielding returns what a leader that yields proposes, also if the other replica was moved away.
// Every release applies both in the same way.
func yielding(h *Topic, i int, y coord.Yield, p *meta.Partition, moved bool) meta.Command {
	if !moved {
		return meta.YieldLeader{Topic: h.Name, Incarnation: h.Incarnation, Partition: i, Epoch: y.Epoch, To: y.To, LastEpoch: y.LastEpoch, End: y.End}
	}
	e := meta.Election{Topic: h.Name, Incarnation: h.Incarnation, Partition: i, Version: p.Version, Leader: p.Leader, Reason: meta.ReasonRepair}
	if !p.Electable(p.Leader) {
		e.Leader = "" // the controller elects another leader
	}
	return meta.ElectLeaders{Elections: []meta.Election{e}}
}

package quarantine

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"

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

// Retry is the pause before a change of the metadata that failed is proposed again; proposeTimeout bounds one attempt.
const (
	Retry          = time.Second
	proposeTimeout = 5 * time.Second
)

// Suspects reports replicas of a node that may have lost acknowledged messages. Its methods are safe
// for concurrent use.
type Suspects struct {
	o Options

	mu        sync.Mutex                        // guards reporting
	reporting map[meta.PartitionID]meta.Suspect // replicas of this node being reported, and what is reported
}

// Mark records in a file system that a log is about to be repaired.
func (q *Suspects) Mark(files vfs.FS, t *meta.Topic, i int, r commitlog.Recovery) error {
	if files != q.o.Dirs.FS || len(t.Partitions[i].Replicas) == 1 {
		return nil // there is no other copy to compare with
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return vfs.WriteFileSynced(files, filepath.Join(q.o.Dirs.Replica(t, i), datadir.MarkSuspect), text)
}

// Marked reports whether a replica's log was truncated, at an earlier start, by the names in its
// directory, or at this one, by the result of its recovery.
func (q *Suspects) Marked(files vfs.FS, t *meta.Topic, i int, names []string, r commitlog.Recovery) (bool, error) {
	if r.Clean() {
		return slices.Contains(names, datadir.MarkSuspect), nil
	}
	_, err := files.Stat(filepath.Join(q.o.Dirs.Replica(t, i), datadir.MarkSuspect))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Report reports to the metadata that a replica is suspect, and retries until the metadata has it
// or the replica is no longer in sync. A report that comes while an earlier one is in progress
// replaces it.
func (q *Suspects) Report(id meta.PartitionID, s meta.Suspect) {
	s.Node = q.o.Self
	if q.want(id, s) {
		return
	}
	q.o.Go(func() {
		for {
			s := q.wanted(id)
			var err error
			if q.unknown(id, s) {
				err = q.tryReport(id, s)
			}
			switch {
			case err != nil:
				q.o.Log.Warn("cannot report a replica that may have lost messages; retrying", "topic", id.Topic, "partition", id.Partition, "error", err)
				if !beat.Pause(q.o.Life, Retry) {
					return
				}
			case q.done(id, s):
				return
			}
		}
	})
}

// want records what to report about a replica, and returns whether a report in progress will
// include it.
func (q *Suspects) want(id meta.PartitionID, s meta.Suspect) (underWay bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, underWay = q.reporting[id]
	q.reporting[id] = s
	return underWay
}

func (q *Suspects) wanted(id meta.PartitionID) meta.Suspect {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.reporting[id]
}

// done ends a report, unless another was requested meanwhile.
func (q *Suspects) done(id meta.PartitionID, s meta.Suspect) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.reporting[id] != s {
		return false
	}
	delete(q.reporting, id)
	return true
}

// unknown reports whether a replica is in sync in the metadata, which does not know that it is
// suspect.
func (q *Suspects) unknown(id meta.PartitionID, s meta.Suspect) bool {
	p := id.Of(q.o.Meta.Topic(id.Topic))
	if p == nil {
		return false
	}
	known, ok := p.SuspectOf(q.o.Self)
	return slices.Contains(p.ISR, q.o.Self) && (!ok || known != s)
}

func (q *Suspects) tryReport(id meta.PartitionID, s meta.Suspect) error {
	self := q.o.Meta.Node(q.o.Self)
	if self == nil {
		return failure.NodeNotFound
	}
	ctx, cancel := context.WithTimeout(q.o.Life, proposeTimeout)
	defer cancel()
	r, err := q.o.Meta.Propose(ctx, meta.ReportSuspects{
		Node: self.ID, Incarnation: self.Incarnation,
		Replicas: []meta.SuspectReplica{{Topic: id.Topic, Incarnation: id.Incarnation, Partition: id.Partition, Suspect: s}},
	})
	return errors.Join(append(r.Failed, err)...)
}

// CanCopy reports whether a partition has a leader on another node that is up and not suspect, from
// which a replica here can be copied.
func (q *Suspects) CanCopy(p *meta.Partition) bool {
	_, suspect := p.SuspectOf(p.Leader)
	n := q.o.Meta.Node(p.Leader)
	return p.Leader != q.o.Self && n != nil && n.State != meta.NodeDown && !suspect
}

// Yield makes another replica lead, which holds messages that this one lacks. The term has ended.
// If that replica was moved to another node meanwhile, this one begins a new epoch, and compares
// logs again.
func (q *Suspects) Yield(id meta.PartitionID, y coord.Yield) {
	q.o.Log.Error("leader lacks messages held by another replica; transferring leadership to it",
		"topic", id.Topic, "partition", id.Partition, "epoch", y.Epoch, "to", y.To, "log_end", y.End)
	q.o.Go(func() {
		for moved := false; ; {
			p := id.Of(q.o.Meta.Topic(id.Topic))
			if p == nil || p.Leader != q.o.Self || p.Epoch != y.Epoch {
				return
			}
			ctx, cancel := context.WithTimeout(q.o.Life, proposeTimeout)
			r, err := q.o.Propose(ctx, yielding(id, y, p, moved))
			cancel()
			err = errors.Join(append(r.Failed, err)...)
			if err == nil || fate.Of(err) == fate.Refused && errors.Is(err, failure.StaleEpoch) {
				return
			}
			if !moved && errors.Is(err, failure.NotInISR) {
				moved = true
				continue
			}
			q.o.Log.Warn("cannot transfer leadership to the replica with more messages; retrying", "topic", id.Topic, "partition", id.Partition, "to", y.To, "error", err)
			if !beat.Pause(q.o.Life, Retry) {
				return
			}
		}
	})
}

// yielding returns what a leader that yields proposes, also if the other replica was moved away.
// Every release applies both in the same way.
func yielding(id meta.PartitionID, y coord.Yield, p *meta.Partition, moved bool) meta.Command {
	if !moved {
		return meta.YieldLeader{Topic: id.Topic, Incarnation: id.Incarnation, Partition: id.Partition, Epoch: y.Epoch, To: y.To, LastEpoch: y.LastEpoch, End: y.End}
	}
	e := meta.Election{Topic: id.Topic, Incarnation: id.Incarnation, Partition: id.Partition, Version: p.Version, Leader: p.Leader, Reason: meta.ReasonRepair}
	if !p.Electable(p.Leader) {
		e.Leader = "" // the controller elects another leader
	}
	return meta.ElectLeaders{Elections: []meta.Election{e}}
}

package host

import (
	"errors"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/repair"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stall"
)

// openReplica opens a replica of a partition, without a role.
func (rs *roles) openReplica(h *Topic, t *meta.Topic, i int) (*Held, error) {
	state, names, err := rs.quarantine.look(h, t, i)
	if err != nil {
		return nil, err
	}
	replica, err := rs.openLog(h, t, i, names)
	if err != nil {
		return nil, err
	}
	switch marked, err := rs.suspects.Marked(h.fs, t, i, names, replica.Recovery()); {
	case err != nil:
		return nil, errors.Join(err, replica.Close())
	case state != intact:
	case len(replica.Recovery().Damaged) > 0:
		state = damaged
	case marked:
		state = suspected
	}
	hp := &Held{index: i, name: datadir.ReplicaName(h.Name, h.Incarnation, i), dir: rs.dirs.Replica(t, i), Replica: replica, sought: repair.NewSought()}
	hp.state.Store(int32(state))
	// The only replica began again without messages, and no operator has accepted that yet.
	hp.lost.Store(slices.Contains(names, datadir.MarkLost))
	return hp, nil
}

// openLog opens the log of a replica in an existing directory with the given names.
func (rs *roles) openLog(h *Topic, t *meta.Topic, i int, names []string) (*coord.Replica, error) {
	lo := rs.o.Log
	// A replicated log syncs several batches at once, so a tail of them torn by a loss of power is
	// no damage.
	lo.Alternating = t.SyncedEach() && len(t.Partitions[i].Replicas) == 1
	lo.CommittedMayBeLost = rs.committedMayBeLost(t, i)
	lo.OnDisk, lo.Names = rs.onDisk.Load(), names
	lo.BeforeRepair = func(r commitlog.Recovery) error { return rs.suspects.Mark(h.fs, t, i, r) }
	full := rs.disk.Brimful
	lo.OnRefused, lo.OnExcess = rs.onRefusal(h, i), h.Disk.Excess
	if h.fs != rs.o.FS {
		full, lo.OnRefused = nil, nil // it uses no disk space
		lo.SegmentBytes = min(rs.o.EphemeralBytes/ephemeralSegments, ephemeralMaxSegment)
		lo.TailBytes, lo.FillBytes = -1, -1 // it is in memory anyway
		lo.Cache = nil
	}
	replica, err := coord.OpenReplica(coord.ReplicaOptions{
		FS: h.fs, Dir: rs.dirs.Replica(t, i), Self: rs.o.Self, Log: lo, Now: time.Now, Wall: rs.o.WallClock, Full: full, Failed: rs.life.fail,
		Partition: replication.Partition{Topic: t.Incarnation, Index: i}, Peers: rs.o.Peers,
		Budget: rs.budget, Credits: rs.credits, CatchUp: rs.catchUp, Stored: rs.o.Observer.ObserveReplication, ReplicaLag: rs.o.ReplicaLag, PublishTimeout: rs.o.PublishTimeout,
		ProposeISR: func(term *coord.Term, c coord.ISRChange) {
			rs.isr.ask(proposal{idOf(h, i), term, c})
		},
		Yield:     func(term *coord.Term, y coord.Yield) { rs.suspects.Yield(idOf(h, i), y) },
		Activated: rs.terms.activate,
		Stalled: func(follower meta.NodeID, since time.Time, why string) {
			k := stall.Key{Kind: stall.Follower, Topic: t.Name, Partition: i, Node: follower}
			if since.IsZero() {
				rs.stalls.End(k)
			} else {
				rs.stalls.Begin(k, since, why)
			}
		},
		Slow: func(follower meta.NodeID, since time.Time) {
			k := stall.Key{Kind: stall.Slow, Topic: t.Name, Partition: i, Node: follower}
			if since.IsZero() {
				rs.stalls.End(k)
			} else {
				rs.stalls.Begin(k, since, "usually the last follower to acknowledge; check its network and disk")
			}
		},
		DamageFound: func(err error) {
			if hp := h.Held(i); hp != nil {
				rs.damage.ReportUnreadable(t.Name, i, err)
				if err == nil {
					rs.reportRefusing(h, hp)
				}
				rs.unsaved.add(h, hp)
			}
		},
		Superseded: func(by seq.Epoch) {
			if hp := h.Held(i); hp != nil {
				hp.lease.Load().Superseded(by)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	rs.damage.ReportRecovery(t.Name, i, replica.Recovery())
	return replica, nil
}

// committedMayBeLost reports whether a loss of power may have taken committed records from this
// node's replica: the machine lost power, or that is unknown, and the topic does not sync always or
// the replica was catching up.
func (rs *roles) committedMayBeLost(t *meta.Topic, i int) bool {
	self := rs.o.Meta.Node(rs.o.Self)
	if self != nil && self.BootID != "" && !self.LostPower {
		return false
	}
	return !t.Config.Sync.Always() || !slices.Contains(t.Partitions[i].ISR, rs.o.Self)
}

// An ephemeral topic's log has small segments, so that retention can drop the oldest messages in
// small steps.
const (
	ephemeralSegments   = 8
	ephemeralMaxSegment = 8 << 20
)

// reportRefusing is called when a replica begins to refuse its leader.
func (rs *roles) reportRefusing(h *Topic, hp *Held) {
	rs.log.Error("replica refuses its leader, which lacks messages committed here; this copy stays unchanged. "+
		"If leadership does not move to a replica that holds them, elect one manually",
		"topic", h.Name, "partition", hp.index, "log_end", hp.Replica.Log().End(), "committed_end", hp.Replica.Log().CommittedEnd())
}

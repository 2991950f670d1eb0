package host

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/repair"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/quarantine"
	"github.com/brokerd/brokerd/pkg/seq"
)

// A damaged replica that is the only one in sync cannot transfer its leadership, and no replica can
// be copied from it across the unreadable range. Other replicas may still hold that range, in a log
// that is not in sync or in a set-aside copy. The leader therefore asks them for the damaged
// ranges, puts those into its log, and leads again in a new epoch. Until all have answered, or
// repair.For has passed, no consumer skips the damage. The field sought has the state of each
// range.
//
// The content of another copy replaces the lost part if that copy agrees, by epoch, offset and checksum,
// in the batch after the damage: logs that are the same in one batch are the same below it. At the
// end of the log there is no such batch. Then the last batch of the range must end there, in the
// epoch that this log still knows: one leader wrote all batches of an epoch.

// Times of a repair.
const (
	// repairAgain is the pause before the others are asked again; the first pause is repairSoon.
	repairSoon, repairAgain = time.Second, 30 * time.Second
	// repairTimeout bounds one request.
	repairTimeout = 5 * time.Second
)

// Bounds of repairs: a repairer keeps at most repairMost bytes of ranges in memory until they are
// in files, and repairs repairsTogether partitions at a time. Others wait for their turn, and their
// minute begins then.
const (
	repairMost      = 192 << 20
	repairsTogether = 2
)

// askBatches is the operation by which a node asks another for batches of a damaged range.
const askBatches forward.Operation[batchesArgs, repair.Answer] = "batches"

// batchesArgs name the requested batches.
type batchesArgs struct {
	Topic       string           `json:"topic"`
	Incarnation meta.Incarnation `json:"incarnation"`
	Partition   int              `json:"partition"`
	repair.Wanted
}

// pendingRepair is a set of files that repair a log, to be put into it in an epoch above the given
// one. A caller that takes it from its replica must either put the files into the log or discard
// them.
type pendingRepair struct {
	above seq.Epoch
	files *repair.Prepared
}

// repairer repairs a damaged copy that is the only one in sync. put runs in the lanes of the
// partitions; the other methods are safe for concurrent use.
type repairer struct {
	o        *Options
	log      *slog.Logger
	life     *life
	topics   *Topics
	damage   *repair.Known
	disk     *diskspace.Space
	asides   *quarantine.Asides
	dirs     datadir.Dir
	roles    *roles
	converge func(topic string) error
	together chan struct{} // holds one for each partition in repair
	finding  chan struct{} // holds one while finder is in use
	finder   repair.Finder // searches set-aside copies
}

// waits reports whether consumers of the only in-sync copy must wait at damage, because other
// copies may hold the range.
func (m *repairer) waits(h *Topic, hp *Held, err *commitlog.CorruptionError) bool {
	t := h.Config()
	return m.reaches(h) && hp.index < len(t.Partitions) && len(t.Partitions[hp.index].Replicas) > 1 &&
		hp.sought.Waits(repair.Of(err))
}

// reaches reports whether there may be copies of a topic on other nodes.
func (m *repairer) reaches(h *Topic) bool { return h.fs == m.o.FS && m.o.Calls.Remote != nil }

// found handles damage that was met. If its caller waits, it has suspended deliveries before the
// call. If the range was given up since the caller asked whether to wait, found resumes them,
// because no other code would.
func (m *repairer) found(h *Topic, hp *Held, err *commitlog.CorruptionError) {
	hp.sought.Want(repair.Of(err))
	m.start(h, hp)
	if !m.waits(h, hp, err) {
		m.resume(hp)
	}
}

// alone returns the partition of a damaged replica that leads and is the only one in sync,
// otherwise nil.
func (m *repairer) alone(h *Topic, hp *Held) *meta.Partition {
	p := idOf(h, hp.index).Of(m.o.Meta.Topic(h.Name))
	if p == nil || h.Held(hp.index) != hp || condition(hp.state.Load()) != damaged || !slices.Equal(p.ISR, []meta.NodeID{m.o.Self}) || p.Leader != m.o.Self {
		return nil
	}
	return p
}

// start asks other replicas for what this one cannot read, until it is repaired or no longer alone
// in sync. It does not wait. A repair that is in progress, and may be in a long pause, asks for damage that
// is new at once.
func (m *repairer) start(h *Topic, hp *Held) {
	if !m.reaches(h) {
		return
	}
	for _, e := range m.damagedIn(hp) {
		hp.sought.Want(e)
	}
	if !hp.repairing.CompareAndSwap(false, true) {
		return
	}
	m.life.running.Go(func() {
		m.repair(h, hp)
		hp.repairing.Store(false)
		if p := m.alone(h, hp); p != nil && m.life.ctx.Err() == nil {
			m.start(h, hp) // a request during the round was missed
		}
	})
}

func (m *repairer) repair(h *Topic, hp *Held) {
	pause := repairSoon
	if hp.repaired > 0 && !beat.Pause(m.life.ctx, min(repairSoon<<min(hp.repaired, 5), repairAgain)) {
		return
	}
	for {
		select {
		case m.together <- struct{}{}:
		case <-m.life.ctx.Done():
			return
		}
		over := m.round(h, hp)
		<-m.together
		if over {
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			pause = min(2*pause, repairAgain)
		case <-hp.sought.More():
			pause = repairSoon
		case <-m.life.ctx.Done():
		}
		if timer.Stop(); m.life.ctx.Err() != nil {
			return
		}
	}
}

// round asks once for all damaged ranges, and begins a repair with the answers. over means that
// nothing more is to be done.
func (m *repairer) round(h *Topic, hp *Held) (over bool) {
	p := m.alone(h, hp)
	if p == nil {
		if x := hp.pendingRepair.Swap(nil); x != nil {
			x.files.Discard()
		}
		m.resume(hp)
		return true
	}
	if hp.pendingRepair.Load() == nil {
		due := hp.sought.Due(m.damagedIn(hp), time.Now())
		time.AfterFunc(repair.For, func() { m.giveUp(h, hp.index, hp.sought) })
		m.prepare(h, hp, p, m.collect(h, hp, p, due))
		m.giveUp(h, hp.index, hp.sought)
	}
	return hp.pendingRepair.Load() != nil && m.begin(h, hp, p)
}

// damagedIn returns the damaged ranges of a replica.
func (m *repairer) damagedIn(hp *Held) []repair.Extent {
	return repair.Extents(m.damage.In(hp.dir), hp.Replica.Log().Start())
}

// giveUp lets consumers skip ranges for which they have waited long enough.
func (m *repairer) giveUp(h *Topic, i int, s *repair.Sought) {
	s.Overdue(time.Now())
	all := s.Passed()
	if len(all) == 0 || m.life.ctx.Err() != nil {
		return
	}
	for _, e := range all {
		m.log.Error("damaged range of the log is not repaired: no replica that responds holds it, or it cannot be written to the log; consumers skip it",
			"topic", h.Name, "partition", i, "from", e.From, "next", e.Next)
	}
	if hp := h.Held(i); hp != nil {
		m.resume(hp)
	}
}

// resume resumes deliveries that waited for a repair. At further damage they wait again, if others
// may hold it.
func (m *repairer) resume(hp *Held) {
	if lp := hp.Led.Load(); lp != nil && !lp.leaving.Load() {
		lp.Part.Gate.Resume()
	}
}

// collect returns what other replicas have of damaged ranges, as much as may be kept in memory, and
// records which ranges no replica has. A node that does not answer is asked for nothing more.
func (m *repairer) collect(h *Topic, hp *Held, p *meta.Partition, due []repair.Extent) []repair.Range {
	ctx, cancel := context.WithTimeout(m.life.ctx, repair.For)
	defer cancel()
	others := slices.DeleteFunc(slices.Clone(p.Replicas), func(id meta.NodeID) bool { return id == m.o.Self })
	g := repair.Gathering{Nodes: len(others), Room: repairMost, Ask: func(i int, w repair.Wanted) (repair.Answer, error) {
		ctx, cancel := context.WithTimeout(ctx, repairTimeout)
		defer cancel()
		return askBatches.Ask(ctx, m.o.Calls, others[i], batchesArgs{h.Name, h.Incarnation, hp.index, w})
	}}
	return g.Collect(ctx, hp.Replica.Log(), m.damagedIn(hp), due, hp.sought)
}

// prepare writes the files that repair a log with the others' batches.
func (m *repairer) prepare(h *Topic, hp *Held, p *meta.Partition, found []repair.Range) {
	if len(found) == 0 {
		return
	}
	files, failed := repair.Prepare(h.fs, hp.dir, found, m.disk.Spare)
	for i, err := range failed {
		if err == nil {
			continue
		}
		if wider, ok := errors.AsType[*repair.WiderError](err); ok {
			m.markDamaged(hp, commitlog.Damage{Path: wider.Path, Position: wider.Position, From: wider.From, Next: wider.Next})
		}
		e := repair.Extent{From: found[i].From, Next: found[i].Next}
		if !hp.sought.Refused(e, err, time.Now()) {
			continue // the next request asks for all of the wider damage
		}
		m.log.Warn("cannot prepare the repair of a damaged range of the log with the copy of another replica; retrying later",
			"topic", h.Name, "partition", hp.index, "from", e.From, "next", e.Next, "error", err)
	}
	if !files.Empty() {
		hp.pendingRepair.Store(&pendingRepair{above: p.Epoch, files: files})
	}
}

// markDamaged marks a range of a replica as damaged.
func (m *repairer) markDamaged(hp *Held, d commitlog.Damage) {
	hp.Replica.MarkDamaged(&commitlog.CorruptionError{Path: d.Path, Position: d.Position, From: d.From, Next: d.Next})
	hp.markDamaged()
}

// begin begins a new epoch in the metadata, in which this replica leads with the ranges in its log.
// The log is closed and opened for that: see put.
func (m *repairer) begin(h *Topic, hp *Held, p *meta.Partition) bool {
	ctx, cancel := context.WithTimeout(m.life.ctx, transferAwayTimeout)
	defer cancel()
	r, err := m.o.proposeObserved(ctx, meta.ElectLeaders{Elections: []meta.Election{{
		Topic: h.Name, Incarnation: h.Incarnation, Partition: hp.index, Version: p.Version, Leader: m.o.Self, Reason: meta.ReasonRepair,
	}}})
	if err = errors.Join(append(r.Failed, err)...); err != nil {
		m.log.Warn("cannot begin a new epoch to repair a damaged log; retrying", "topic", h.Name, "partition", hp.index, "error", err)
		return false
	}
	_ = m.converge(h.Name) // the next change retries a failure
	return true
}

// put puts the others' batches into the log of a replica, which is closed and opened for that.
// Ranges that are not repaired stay recorded as damaged, because a trusted index may not show them.
func (m *repairer) put(h *Topic, hp *Held, t *meta.Topic) error {
	m.damage.Drop(hp.dir, repair.Extent{Next: hp.Replica.Log().Start()}) // forget damage that retention has dropped
	m.roles.step(h, hp)
	m.topics.retire(hp)
	h.hold(hp.index, nil)
	if err := hp.Replica.Close(); err != nil {
		m.log.Warn("cannot close a damaged replica cleanly; its repair continues", "topic", h.Name, "partition", hp.index, "error", err)
	}
	files := &repair.Prepared{} // none if they were discarded meanwhile
	if x := hp.pendingRepair.Swap(nil); x != nil {
		files = x.files
	}
	prepared := files.Ranges()
	ranges, err := files.Put()
	if err != nil {
		m.log.Warn("cannot repair a damaged log with the data of another replica; retrying later", "topic", h.Name, "partition", hp.index, "error", err)
	}
	repaired := make([]repair.Extent, 0, len(ranges))
	for _, r := range ranges {
		repaired = append(repaired, repair.Extent{From: r.From, Next: r.Next})
		m.log.Info("damaged range of the log repaired with the copy of another replica",
			"topic", h.Name, "partition", hp.index, "from", r.From, "next", r.Next)
		m.damage.Drop(hp.dir, repaired[len(repaired)-1])
	}
	fresh, err := m.roles.openReplica(h, t, hp.index)
	if err != nil {
		return err
	}
	fresh.repaired, fresh.sought = hp.repaired+1, hp.sought
	fresh.sought.Repaired(repaired, time.Now())
	for _, r := range prepared {
		fresh.sought.Failed(repair.Extent{From: r.From, Next: r.Next}, time.Now(), false) // unless it is repaired, and forgotten
	}
	h.hold(hp.index, fresh)
	for _, d := range m.damage.In(hp.dir) {
		m.markDamaged(fresh, d)
	}
	return nil
}

// batchesHere returns batches of a range that another node has lost, from any copy on this node.
// One request at a time searches set-aside copies. The search continues when its caller no longer
// waits: the next caller finds it done.
func (m *repairer) batchesHere(ctx context.Context, a batchesArgs) (piece repair.Answer, err error) {
	h := m.topics.Lookup(a.Topic)
	if h == nil || h.Incarnation != a.Incarnation {
		return piece, failure.TopicNotFound
	}
	if hp := h.Held(a.Partition); hp != nil {
		if piece = repair.InLog(hp.Replica.Log()).Answer(ctx, a.Wanted); len(piece.Bytes) > 0 {
			return piece, nil
		}
	}
	select {
	case m.finding <- struct{}{}:
		defer func() { <-m.finding }()
	case <-ctx.Done():
		return piece, context.Cause(ctx)
	}
	err = m.asides.Each(func(t *meta.Topic, i int, name string) {
		if len(piece.Bytes) == 0 && t != nil && t.Incarnation == a.Incarnation && i == a.Partition {
			c := m.finder.InDir(m.life.ctx, m.o.FS, filepath.Join(m.dirs.Quarantine(), name))
			piece = c.Answer(ctx, a.Wanted)
		}
	})
	return piece, errors.Join(err, ctx.Err()) // an incomplete search proves nothing
}

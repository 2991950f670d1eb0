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
	"github.com/brokerd/brokerd/pkg/commitlog/mend"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// A replica that is damaged and the only one in sync has nobody to hand over to, and nobody can
// be copied from it across what cannot be read. Other replicas may still hold that: in a log that is
// not in sync, or in a copy that was set aside. So it asks them for the damaged ranges, puts those
// into its log, and leads again in a new epoch. Until all have answered, or mendFor is over, no
// consumer is led past the damage.
//
// What another copy holds is what was lost if that copy agrees, by epoch, offset and checksum, in the
// batch behind the damage: logs that are the same in one batch are the same below it. At the end of
// the log no such batch is there: then both have to know the range as committed, and nothing may have
// taken back what was committed, as a loss of power can where the topic does not sync always, or an
// operator's election.

// Times of mending.
const (
	// mendAgain is the pause after which the others are asked again, at first mendSoon.
	mendSoon, mendAgain = time.Second, 30 * time.Second
	// mendFor is how long consumers wait for replicas that do not answer, and mendSure where all say that
	// they do not hold it: one may be setting its copy aside at that moment.
	mendFor, mendSure = time.Minute, 5 * time.Second
	// mendTimeout bounds one request.
	mendTimeout = 5 * time.Second
)

// mendMost is the largest range that is asked for: it is kept in memory.
const mendMost = 256 << 20

// askBatches is the operation by which a node asks another for batches of a damaged range.
const askBatches forward.Operation[batchesArgs, mend.Answer] = "batches"

// batchesArgs name the batches that are wanted.
type batchesArgs struct {
	Topic       string           `json:"topic"`
	Incarnation meta.Incarnation `json:"incarnation"`
	Partition   int              `json:"partition"`
	mend.Wanted
}

// mendment is what others have of damaged ranges, to be put into the log in an epoch above one.
type mendment struct {
	above  seq.Epoch
	ranges []mend.Range
}

// mender is how a node treats a damaged copy that is the only one in sync. put is of the lanes of the
// partitions; the others may be called by many goroutines.
type mender struct {
	o        *Options
	log      *slog.Logger
	life     *life
	topics   *Topics
	damage   *damage
	asides   *asides
	roles    roleTaker
	converge func(topic string) error
}

// mendable reports whether other replicas may hold what a copy cannot read, though none is in sync.
func (m *mender) mendable(h *Topic, hp *Held) bool {
	t := h.Config()
	return !hp.unmendable.Load() && m.reaches(h) && hp.index < len(t.Partitions) && len(t.Partitions[hp.index].Replicas) > 1
}

// reaches reports whether there may be copies of a topic on other nodes.
func (m *mender) reaches(h *Topic) bool { return h.fs == m.o.FS && m.o.Calls.Remote != nil }

// alone returns the partition of a damaged copy that leads and is the only one in sync; nil: it is not.
func (m *mender) alone(h *Topic, hp *Held) (*meta.Topic, *meta.Partition) {
	t := m.o.Meta.Topic(h.Name)
	if t == nil || t.Incarnation != h.Incarnation || h.Held(hp.index) != hp || condition(hp.state.Load()) != damaged {
		return nil, nil
	}
	p := &t.Partitions[hp.index]
	if !slices.Equal(p.ISR, []meta.NodeID{m.o.Self}) || p.Leader != m.o.Self {
		return nil, nil
	}
	return t, p
}

// start asks other replicas for what this one cannot read, until it has it or is not alone in sync any
// more. It does not wait.
func (m *mender) start(h *Topic, hp *Held) {
	if !m.reaches(h) || !hp.mending.CompareAndSwap(false, true) {
		return
	}
	m.life.running.Go(func() {
		defer func() {
			hp.mending.Store(false)
			if _, p := m.alone(h, hp); p != nil && m.life.ctx.Err() == nil {
				m.start(h, hp) // who asked for that meanwhile was not heard
			}
		}()
		began, pause := time.Now(), mendSoon
		if hp.mended > 0 && !beat.Pause(m.life.ctx, min(mendSoon<<min(hp.mended, 5), mendAgain)) {
			return
		}
		for {
			t, p := m.alone(h, hp)
			if p == nil {
				m.resume(hp)
				return
			}
			ranges, open := m.collect(h, hp, t, p)
			if len(ranges) > 0 && m.begin(h, hp, p, ranges) {
				return
			}
			wait := mendSure
			if open {
				wait = mendFor
			}
			if time.Since(began) >= wait && !hp.unmendable.Swap(true) {
				m.log.Error("no other replica that can be reached holds what is damaged here; consumers pass over it",
					"topic", h.Name, "partition", hp.index)
				m.resume(hp)
			}
			if !beat.Pause(m.life.ctx, pause) {
				return
			}
			pause = min(2*pause, mendAgain)
		}
	})
}

// resume has deliveries go on that waited for what others hold. Where more damage is met they wait again,
// if others may hold that.
func (m *mender) resume(hp *Held) {
	if lp := hp.Led.Load(); lp != nil && !lp.leaving.Load() {
		lp.Part.Resume()
	}
}

// collect returns what others have of the damaged ranges. open: some have not answered.
func (m *mender) collect(h *Topic, hp *Held, t *meta.Topic, p *meta.Partition) (found []mend.Range, open bool) {
	log, all := hp.Replica.Log(), m.damage.in(hp.dir)
	all = slices.CompactFunc(all, func(a, b commitlog.Damage) bool { return a.From == b.From && a.Next == b.Next })
	all = slices.DeleteFunc(all, func(d commitlog.Damage) bool { return d.From < log.Start() && d.Next <= log.Start() }) // retention has dropped it
	for i, d := range all {
		a := batchesArgs{h.Name, h.Incarnation, hp.index, mend.Wanted{From: d.From, Next: d.Next, Behind: d.Next}}
		for _, next := range all[i+1:] {
			if next.From == a.Behind {
				a.Behind = next.Next
			}
		}
		switch b, err := commitlog.Decode(mend.InLog(log).Batch(a.Behind)); {
		case err == nil:
			a.Epoch, a.Sum = b.Epoch(), b.Checksum()
		case a.Behind < log.End():
			open = true
			continue // it is damaged, too, and that was not found yet
		case !t.Config.Sync.Always() || p.Unclean > 0 || log.CommittedEnd() < a.Behind:
			continue // it cannot be proved that another copy has the same
		default:
			a.Last = true
		}
		for _, id := range p.Replicas {
			if id == m.o.Self {
				continue
			}
			raw, err := m.fetch(id, a)
			open = open || err != nil
			if err == nil && (len(raw) > 0 || d.From == d.Next) {
				found = append(found, mend.Range{From: d.From, Next: d.Next, Batches: raw})
				break
			}
		}
	}
	return found, open
}

// fetch asks a node for the batches of a range; nothing: it does not have them.
func (m *mender) fetch(id meta.NodeID, a batchesArgs) (raw []byte, err error) {
	from := 0 // of the batch that is being fetched, in raw
	for a.From < a.Next && len(raw) < mendMost {
		ctx, cancel := context.WithTimeout(m.life.ctx, mendTimeout)
		piece, err := askBatches.Ask(ctx, m.o.Calls, id, a)
		cancel()
		if err != nil || len(piece.Bytes) == 0 {
			return nil, err
		}
		raw = append(raw, piece.Bytes...)
		if a.At = len(raw) - from; !piece.Whole {
			continue
		}
		for a.At = 0; from < len(raw); {
			b, err := commitlog.Decode(raw[from:])
			if err != nil || b.First() != a.From || b.End() > a.Next {
				return nil, err
			}
			a.From, from = b.End(), from+b.Size()
		}
	}
	if a.From < a.Next {
		return nil, nil
	}
	return raw, nil
}

// begin has the metadata begin a new epoch, in which this replica leads with the ranges in its log. The
// log is closed and opened for that: see put.
func (m *mender) begin(h *Topic, hp *Held, p *meta.Partition, ranges []mend.Range) bool {
	hp.mendment.Store(&mendment{p.Epoch, ranges})
	ctx, cancel := context.WithTimeout(m.life.ctx, handOnTimeout)
	defer cancel()
	r, err := m.o.Meta.Propose(ctx, meta.ElectLeaders{Elections: []meta.Election{{
		Topic: h.Name, Incarnation: h.Incarnation, Partition: hp.index, Version: p.Version, Leader: m.o.Self, Reason: meta.ReasonRepair,
	}}})
	if err = errors.Join(append(r.Failed, err)...); err != nil {
		m.log.Warn("cannot begin a new epoch to repair a damaged log; retrying", "topic", h.Name, "partition", hp.index, "error", err)
		return false
	}
	_ = m.converge(h.Name) // what fails is tried again with the next change
	return true
}

// put puts what others have into the log of a replica, which is closed and opened for that.
func (m *mender) put(h *Topic, hp *Held, t *meta.Topic, ranges []mend.Range) error {
	m.roles.step(h, hp)
	m.topics.retire(hp)
	h.hold(hp.index, nil)
	if err := hp.Replica.Close(); err != nil {
		m.log.Warn("cannot close damaged replica", "topic", h.Name, "partition", hp.index, "error", err)
	}
	var wide []*mend.WiderError
	for _, r := range ranges {
		log := m.log.With("topic", h.Name, "partition", hp.index, "from", r.From, "next", r.Next)
		if err := mend.Log(h.fs, hp.dir, r); err != nil {
			if w, ok := errors.AsType[*mend.WiderError](err); ok {
				wide = append(wide, w)
			}
			log.Warn("cannot repair a damaged range of the log with the copy of another replica", "error", err)
			continue
		}
		log.Info("damaged range of the log repaired with the copy of another replica")
	}
	m.damage.forget(hp.dir)
	fresh, err := m.roles.openReplica(h, t, hp.index)
	if err != nil {
		return err
	}
	fresh.mended = hp.mended + 1
	h.hold(hp.index, fresh)
	for _, w := range wide { // it is asked for all of that next
		fresh.Replica.Spoil(&commitlog.CorruptionError{Path: w.Path, Position: w.Position, From: w.From, Next: w.Next})
		fresh.spoil()
	}
	return nil
}

// batchesHere returns batches of a range that another node has lost, of whatever copy here has them.
func (m *mender) batchesHere(_ context.Context, a batchesArgs) (mend.Answer, error) {
	h := m.topics.Lookup(a.Topic)
	if h == nil || h.Incarnation != a.Incarnation {
		return mend.Answer{}, meta.ErrTopicNotFound
	}
	var all []mend.Copy
	if hp := h.Held(a.Partition); hp != nil {
		all = append(all, mend.InLog(hp.Replica.Log()))
	}
	err := m.asides.each(func(t *meta.Topic, i int, name string) {
		if t != nil && t.Incarnation == a.Incarnation && i == a.Partition {
			all = append(all, mend.InDir(m.o.FS, filepath.Join(m.asides.dirs.Quarantine(), name)))
		}
	})
	for _, c := range all {
		if piece := c.Answer(a.Wanted); len(piece.Bytes) > 0 {
			return piece, nil
		}
	}
	return mend.Answer{}, err
}

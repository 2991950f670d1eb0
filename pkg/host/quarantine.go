package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/repair"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/quarantine"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// A replica whose data is damaged, or missing although it should exist, is in quarantine while
// others are in sync. It answers no leader, so its leader removes it from the in-sync set. If it
// leads itself, it does so only until another replica does. Once the metadata says that it is out
// of the set, its data is set aside and it is copied again. It has acknowledged nothing since the
// damage was found, so no replica counts on what it lacks. The only in-sync replica serves the rest
// of its data.

// transferAwayTimeout bounds how long a replica in quarantine tries to make another one lead in its
// place.
const transferAwayTimeout = 5 * time.Second

// condition is the known state of a replica's data.
type condition int32

const (
	intact    condition = iota
	suspected           // its log was truncated when it was opened: acknowledged messages may be lost
	damaged             // a part cannot be read
	missing             // it existed before, according to the metadata
	outdated            // it is of another disk, or of an older copy of this one
)

// Quarantine handles replicas whose data is not intact. Its exported methods are safe for
// concurrent use; the others run in the lanes of the partitions.
type Quarantine struct {
	o           *Options
	log         *slog.Logger
	dirs        datadir.Dir
	ledger      *datadir.Ledger
	life        *life
	topics      *Topics
	damage      *repair.Known
	suspects    *quarantine.Suspects
	Asides      *quarantine.Asides // which pkg/operate lists, and discards for operators
	repairer    *repairer
	failures    *roleErrors
	roles       *roles
	leaderships transferrer
	converge    func(topic string) error
}

// transferrer transfers a leadership of this node to another.
type transferrer interface {
	one(ctx context.Context, a forward.Transfer) error
}

// clear ends a replica's state as suspect on this node.
func (q *Quarantine) clear(h *Topic, hp *Held) error {
	if err := hp.unmark(h, datadir.MarkSuspect); err != nil {
		return err
	}
	hp.state.CompareAndSwap(int32(suspected), int32(intact))
	return nil
}

// adopt ends a replica's state as outdated: what it holds counts from here on.
func (q *Quarantine) adopt(h *Topic, hp *Held) error {
	if err := hp.unmark(h, datadir.MarkOutdated); err != nil {
		return err
	}
	is := intact
	if hp.Replica.Damaged() {
		is = damaged
	}
	hp.state.CompareAndSwap(int32(outdated), int32(is))
	return nil
}

// unmark removes a mark from a replica's directory.
func (hp *Held) unmark(h *Topic, mark string) error {
	if err := h.fs.Remove(filepath.Join(hp.dir, mark)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return h.fs.SyncDir(hp.dir)
}

// standing returns what the metadata should record of a suspect replica.
func (q *Quarantine) standing(hp *Held) meta.Suspect {
	log, state := hp.Replica.Log(), condition(hp.state.Load())
	return meta.Suspect{
		Node: q.o.Self, Epoch: log.LastEpoch(), End: log.End(), Damaged: state == damaged, Missing: state == missing,
	}
}

// reported reports whether the metadata knows everything about a suspect replica.
func (q *Quarantine) reported(hp *Held, p *meta.Partition) bool {
	s, known := p.SuspectOf(q.o.Self)
	return known && s == q.standing(hp)
}

// others returns the in-sync replicas of a partition except this node.
func (q *Quarantine) others(p *meta.Partition) []meta.NodeID {
	return slices.DeleteFunc(slices.Clone(p.ISR), func(id meta.NodeID) bool { return id == q.o.Self })
}

// lost reports whether a replica with an empty directory has lost its data: the ledger says that it
// was created here, and it is in the in-sync set. A replica that was never created here, or that is
// not in sync, has nothing to lose.
func (q *Quarantine) lost(h *Topic, t *meta.Topic, i int, names []string) bool {
	bare := !slices.ContainsFunc(names, func(name string) bool { return !strings.HasSuffix(name, vfs.TempSuffix) })
	return bare && q.ledger.Has(datadir.ReplicaName(h.Name, h.Incarnation, i)) && slices.Contains(t.Partitions[i].ISR, q.o.Self)
}

// look determines the condition of a replica's data from the names in its directory, before its log
// is opened, and returns both. It creates the replica if it does not exist.
func (q *Quarantine) look(h *Topic, t *meta.Topic, i int) (condition, []string, error) {
	dir := q.dirs.Replica(t, i)
	names, err := h.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = vfs.MkdirAllSynced(h.fs, dir)
	}
	if err != nil {
		return intact, nil, err
	}
	if slices.Contains(names, datadir.MarkMissing) {
		return missing, names, nil
	}
	if q.lost(h, t, i, names) {
		q.log.Error("data of an in-sync replica is missing: check that its disk is mounted; other in-sync replicas serve the partition, and a partition with one replica continues empty", "topic", t.Name, "partition", i, "path", dir)
		if len(t.Partitions[i].Replicas) > 1 {
			return missing, names, vfs.MarkSynced(h.fs, filepath.Join(dir, datadir.MarkMissing))
		}
		// There is no other copy to wait for.
		if err := vfs.MarkSynced(h.fs, filepath.Join(dir, datadir.MarkLost)); err != nil {
			return intact, nil, err
		}
		names = append(names, datadir.MarkLost)
	}
	if !slices.Contains(names, datadir.MarkReplica) {
		if err := vfs.MarkSynced(h.fs, filepath.Join(dir, datadir.MarkReplica)); err != nil {
			return intact, nil, err
		}
	}
	if h.fs != q.o.FS {
		return intact, names, nil // an ephemeral topic has no data on disk
	}
	state := intact
	if slices.Contains(names, datadir.MarkOutdated) {
		state = outdated
	}
	return state, names, q.ledger.Enter(datadir.ReplicaName(h.Name, h.Incarnation, i))
}

// treat takes the next step for a replica whose data is not intact, and reports whether it may have
// a role meanwhile.
func (q *Quarantine) treat(h *Topic, hp *Held, t *meta.Topic) (serves bool, err error) {
	p := &t.Partitions[hp.index]
	state, inSync := condition(hp.state.Load()), slices.Contains(p.ISR, q.o.Self)
	leads := hp.Led.Load() != nil && p.Leader == q.o.Self // after a transfer its term may still exist
	switch {
	case inSync && state == outdated: // which only an operator's election can have caused
		q.log.Warn("replica of an outdated data directory elected by operator: it leads with what it holds", "topic", h.Name, "partition", hp.index)
		return true, q.adopt(h, hp)
	case !inSync && state == outdated && !q.suspects.CanCopy(p):
		q.log.Error("replica of an outdated data directory kept unchanged: the partition has no leader to copy from; put the right disk back, and elect the replica that holds the most: see brokerctl partition describe",
			"topic", h.Name, "partition", hp.index)
		q.roles.step(h, hp)
		return false, nil
	case inSync && len(q.others(p)) == 0 && state == missing:
		q.log.Error("only in-sync replica has no data; elect another replica manually", "topic", h.Name, "partition", hp.index)
		q.roles.step(h, hp)
		return false, nil
	case inSync && len(q.others(p)) == 0 && state == suspected:
		q.log.Error("only in-sync replica was truncated when opened; acknowledged messages may be lost", "topic", h.Name, "partition", hp.index)
		return true, q.clear(h, hp)
	case inSync && len(q.others(p)) == 0:
		if m := hp.pendingRepair.Load(); m != nil && p.Epoch > m.above {
			if err := q.repairer.put(h, hp, t); err != nil {
				return false, err
			}
			if hp = h.Held(hp.index); condition(hp.state.Load()) == suspected { // it was suspected because it was damaged
				return true, q.clear(h, hp)
			}
			return q.treat(h, hp, t) // which may lack something else
		}
		q.repairer.start(h, hp)
		return true, nil // there is no better copy
	case !inSync && state == suspected:
		return true, q.clear(h, hp) // it counts again once a leader has compared logs with it
	case !inSync && !q.suspects.CanCopy(p):
		q.log.Error("damaged replica kept unchanged: the partition has no leader to copy from; see brokerctl partition describe", "topic", h.Name, "partition", hp.index)
		q.roles.step(h, hp)
		return false, nil
	case !inSync:
		q.log.Warn("replica with damaged, missing or outdated data is not in sync; its data is set aside, and it is copied again from its leader", "topic", h.Name, "partition", hp.index)
		return true, q.copyAgain(h, hp, t)
	case !leads && !q.reported(hp, p):
		q.roles.step(h, hp)
		q.suspects.Report(idOf(h, hp.index), q.standing(hp))
		return false, nil
	case state == suspected && p.Leader == q.o.Self:
		q.log.Error("all in-sync replicas may have lost acknowledged messages; leading because this one holds the most", "topic", h.Name, "partition", hp.index)
		return true, q.clear(h, hp)
	case state == suspected:
		return true, nil // its leader removes it from the in-sync set and compares logs
	case p.Leader == q.o.Self:
		q.transferAway(h, hp.index)
		if condition(hp.state.Load()) == damaged {
			return true, nil // until another replica leads
		}
	}
	q.roles.step(h, hp)
	return false, nil
}

// transferAway makes another in-sync replica lead a partition. If a graceful transfer fails, because
// followers cannot be served from a damaged log, this replica is reported as suspect, which deposes
// it. If no other replica can lead, this one continues after a pause, if it leads. A replica
// without data to lead with retries for as long as the metadata names it as leader.
func (q *Quarantine) transferAway(h *Topic, i int) {
	hp := h.Held(i)
	if hp != nil && !hp.transferring.CompareAndSwap(false, true) {
		return
	}
	q.life.running.Go(func() {
		err := q.tryTransferAway(h, i)
		if err != nil {
			q.log.Warn("damaged leader cannot transfer leadership; reporting it so that another replica is elected",
				"topic", h.Name, "partition", i, "error", err)
		}
		if err != nil && hp != nil && q.elsewhere(h, i) {
			q.suspects.Report(idOf(h, i), q.standing(hp))
		}
		for err != nil && beat.Pause(q.life.ctx, quarantine.Retry) && hp != nil && q.mustLead(h, hp) {
			err = q.tryTransferAway(h, i)
		}
		if hp == nil {
			return
		}
		hp.transferring.Store(false)
		if lp := hp.Led.Load(); lp != nil && err != nil {
			lp.Part.Gate.Resume() // the damage will be met again, and handled again
		}
	})
}

// mustLead reports whether the metadata names this replica as leader although it does not lead.
func (q *Quarantine) mustLead(h *Topic, hp *Held) bool {
	p := idOf(h, hp.index).Of(q.o.Meta.Topic(h.Name))
	return p != nil && p.Leader == q.o.Self && h.Held(hp.index) == hp && hp.Led.Load() == nil
}

func (q *Quarantine) tryTransferAway(h *Topic, i int) error {
	ctx, cancel := context.WithTimeout(q.life.ctx, transferAwayTimeout)
	defer cancel()
	if h.Led(i) != nil {
		return q.leaderships.one(ctx, forward.Transfer{Topic: h.Name, Incarnation: h.Incarnation, Partition: i})
	}
	s := q.o.Meta.View()
	e, err := controller.Transfer(s, controller.ConditionsOf(s), idOf(h, i), "", false)
	if err != nil {
		return err
	}
	r, err := q.o.proposeObserved(ctx, meta.ElectLeaders{Elections: []meta.Election{e}})
	return errors.Join(append(r.Failed, err)...)
}

// askForget is the operation by which a node asks the leader of a partition to discard its state of
// the node's replica.
const askForget forward.Operation[forgetArgs, forward.Nothing] = "forget"

// forgetTimeout bounds that operation.
const forgetTimeout = time.Second

// forgetArgs identify a replica that is about to be emptied.
type forgetArgs struct {
	Topic       string           `json:"topic"`
	Incarnation meta.Incarnation `json:"incarnation"`
	Partition   int              `json:"partition"`
	Epoch       seq.Epoch        `json:"epoch"`
	Node        meta.NodeID      `json:"node"`
}

// forgetHere makes a term on this node discard its state of a replica.
func (q *Quarantine) forgetHere(_ context.Context, a forgetArgs) (none forward.Nothing, err error) {
	h := q.topics.Lookup(a.Topic)
	if h == nil || h.Incarnation != a.Incarnation {
		return none, failure.TopicNotFound
	}
	hp := h.Held(a.Partition)
	if hp == nil {
		return none, failure.PartitionNotFound
	}
	return none, hp.Replica.Forget(a.Epoch, a.Node)
}

// forgotten asks the leader of a partition to discard its state of this replica, which no longer
// answers anyone. Otherwise the leader might admit the emptied replica to the in-sync set for the
// data that it held before.
func (q *Quarantine) forgotten(h *Topic, p *meta.Partition, i int) error {
	ctx, cancel := context.WithTimeout(q.life.ctx, forgetTimeout)
	defer cancel()
	if _, err := askForget.Ask(ctx, q.o.Calls, p.Leader, forgetArgs{h.Name, h.Incarnation, i, p.Epoch, q.o.Self}); err != nil {
		return fmt.Errorf("set aside damaged replica: leader %s has not reset its state for it: %w", p.Leader, err)
	}
	return nil
}

// copyAgain sets a replica's data aside and opens it empty.
func (q *Quarantine) copyAgain(h *Topic, hp *Held, t *meta.Topic) error {
	q.roles.step(h, hp)
	if err := q.forgotten(h, &t.Partitions[hp.index], hp.index); err != nil {
		return err
	}
	q.topics.retire(hp)
	h.hold(hp.index, nil)
	if err := hp.Replica.Close(); err != nil {
		q.log.Warn("cannot close a damaged replica cleanly; its data is set aside and copied again nevertheless", "topic", h.Name, "partition", hp.index, "error", err)
	}
	q.damage.Forget(hp.dir)
	if err := q.Asides.Add(t, hp.index); err != nil {
		return err
	}
	fresh, err := q.roles.openReplica(h, t, hp.index)
	if err != nil {
		return err
	}
	h.hold(hp.index, fresh)
	return nil
}

// errQuarantine is wrapped by errors of a replica that is unavailable until it leaves the in-sync
// set.
var errQuarantine = errors.New("quarantined until it leaves the in-sync set")

// errNoCopy is wrapped by errors about damaged data that stays in its place.
var errNoCopy = errors.New("kept unchanged: no leader to copy from")

// treatCorrupt decides what happens to a replica that could not be opened. If the cause is its data
// on disk, and others are in sync, the data is set aside as soon as no replica counts on it.
// Without an error the replica can be opened empty.
func (q *Quarantine) treatCorrupt(h *Topic, t *meta.Topic, i int, cause error) error {
	p := &t.Partitions[i]
	inSync := slices.Contains(p.ISR, q.o.Self)
	switch {
	case fate.Of(cause) != fate.Corrupt, len(q.others(p)) == 0:
		return cause
	case inSync:
		q.suspects.Report(idOf(h, i), meta.Suspect{Missing: true}) // none of it can be served
		return fmt.Errorf("%w: %w", errQuarantine, cause)
	case !q.suspects.CanCopy(p):
		return fmt.Errorf("%w: %w", errNoCopy, cause)
	}
	q.log.Error("cannot open replica; its data is set aside, and it is copied again from its leader", "topic", h.Name, "partition", i, "error", cause)
	q.damage.Forget(q.dirs.Replica(t, i))
	return q.Asides.Add(t, i)
}

// foundDamage handles a damaged range that a consumer met. If other replicas are in sync, nothing
// is delivered until one of them leads.
func (q *Quarantine) foundDamage(h *Topic, hp *Held, err *commitlog.CorruptionError) {
	hp.Replica.MarkDamaged(err)
	hp.markDamaged()
	if q.elsewhere(h, hp.index) {
		q.transferAway(h, hp.index)
	} else {
		q.repairer.found(h, hp, err)
	}
}

// waits reports whether consumers must wait at damage, because other replicas may hold the lost
// range.
func (q *Quarantine) waits(h *Topic, hp *Held, err *commitlog.CorruptionError) bool {
	return q.elsewhere(h, hp.index) || q.repairer.waits(h, hp, err)
}

// markDamaged records that a part of a replica cannot be read, and reports whether that is new. A suspect
// replica becomes a damaged one.
func (hp *Held) markDamaged() (first bool) {
	return hp.state.CompareAndSwap(int32(intact), int32(damaged)) || hp.state.CompareAndSwap(int32(suspected), int32(damaged))
}

// elsewhere reports whether other in-sync replicas hold the part that is damaged here.
func (q *Quarantine) elsewhere(h *Topic, i int) bool {
	t := h.Config()
	return i < len(t.Partitions) && len(q.others(&t.Partitions[i])) > 0
}

// inspect handles a replica in which damage was found after it was opened. If it leads while others
// are in sync, it transfers the leadership each time the damage is met.
func (q *Quarantine) inspect(h *Topic, hp *Held) {
	if !hp.Replica.Damaged() {
		return
	}
	first := hp.markDamaged()
	if first {
		q.log.Error("replica is damaged: another in-sync replica is to lead, and this one is copied again; without another, messages in the damaged range are not delivered", "topic", h.Name, "partition", hp.index)
	}
	switch {
	case hp.Led.Load() == nil:
	case q.elsewhere(h, hp.index):
		q.transferAway(h, hp.index)
	default:
		q.repairer.start(h, hp)
	}
	if first {
		q.life.running.Go(func() { _ = q.converge(h.Name) }) // the next change retries a failure
	}
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
	if err := hp.unmark(h, datadir.MarkLost); err != nil {
		return err
	}
	q.log.Warn("data loss of partition accepted by operator", "topic", h.Name, "partition", hp.index)
	hp.lost.Store(false)
	return nil
}

// DamageOf returns the known damaged ranges of a replica.
func (q *Quarantine) DamageOf(hp *Held) []api.DamageRange {
	return quarantine.DamageRanges(q.damage.In(hp.dir))
}

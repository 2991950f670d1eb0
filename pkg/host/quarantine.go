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
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/repair"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// A replica whose data is damaged, or gone though it should be there, is in
// quarantine while others are in sync: it answers no leader, which takes it out of
// the in-sync set, and leads only until another does. Once metadata says that it
// is out, its data is set aside and it is copied again. It has acknowledged nothing
// since the damage was known, so nobody counts on what it lacks. The only in-sync
// replica serves what is left of its data.

// handOnTimeout bounds how long a replica in quarantine tries to have another
// lead in its place, and handOnAgain is how long it then waits.
const (
	handOnTimeout = 5 * time.Second
	handOnAgain   = time.Second
)

// condition is what is known of a replica's data.
type condition int32

const (
	intact    condition = iota
	suspected           // its log was cut when it was opened: acknowledged messages may be gone
	damaged             // some of it cannot be read
	missing             // it was there once, by what metadata says
)

// Quarantine is how a node treats replicas whose data is not intact. Its exported methods may
// be called by many goroutines; the others are of the lanes of the partitions.
type Quarantine struct {
	o           *Options
	log         *slog.Logger
	dirs        datadir.Dir
	ledger      *datadir.Ledger
	life        *life
	topics      *Topics
	damage      *repair.Known
	suspects    *suspicion
	asides      *asides
	repairer    *repairer
	failures    *roleErrors
	roles       roleTaker
	leaderships transferrer
	converge    func(topic string) error
}

// roleTaker opens replicas, and ends the roles that they have.
type roleTaker interface {
	openReplica(h *Topic, t *meta.Topic, i int) (*Held, error)
	step(h *Topic, hp *Held)
}

// transferrer gives a leadership of this node to another.
type transferrer interface {
	one(ctx context.Context, a forward.Transfer) error
}

// others returns the in-sync replicas of a partition besides this node.
func (q *Quarantine) others(p *meta.Partition) []meta.NodeID {
	return slices.DeleteFunc(slices.Clone(p.ISR), func(id meta.NodeID) bool { return id == q.o.Self })
}

// lost reports whether a replica that finds nothing in its directory has lost what it
// held: the ledger says that it was made here, and it is in the in-sync set. A
// replica that was never made here, or that is out of sync, has nothing to lose.
func (q *Quarantine) lost(h *Topic, t *meta.Topic, i int, names []string) bool {
	bare := !slices.ContainsFunc(names, func(name string) bool { return !strings.HasSuffix(name, vfs.TempSuffix) })
	return bare && q.ledger.Has(datadir.ReplicaName(h.Name, h.Incarnation, i)) && slices.Contains(t.Partitions[i].ISR, q.o.Self)
}

// look returns what is known of a replica's data by what its directory holds
// before its log is opened, and the names in it. It makes the replica if it is not there.
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
		q.log.Error("in-sync replica has no data", "topic", t.Name, "partition", i, "path", dir)
		if len(t.Partitions[i].Replicas) > 1 {
			return missing, names, vfs.MarkSynced(h.fs, filepath.Join(dir, datadir.MarkMissing))
		}
		// there is no other copy to wait for
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
		return intact, names, nil // it is in memory
	}
	return intact, names, q.ledger.Enter(datadir.ReplicaName(h.Name, h.Incarnation, i))
}

// treat brings a replica whose data is not intact a step further, and returns
// whether it may have a role meanwhile.
func (q *Quarantine) treat(h *Topic, hp *Held, t *meta.Topic) (serves bool, err error) {
	p := &t.Partitions[hp.index]
	state, inSync := condition(hp.state.Load()), slices.Contains(p.ISR, q.o.Self)
	leads := hp.Led.Load() != nil && p.Leader == q.o.Self // one that has handed over may still have its term
	switch {
	case inSync && len(q.others(p)) == 0 && state == missing:
		q.log.Error("only in-sync replica has no data; elect another replica manually", "topic", h.Name, "partition", hp.index)
		q.roles.step(h, hp)
		return false, nil
	case inSync && len(q.others(p)) == 0 && state == suspected:
		q.log.Error("only in-sync replica was truncated when opened; acknowledged messages may be lost", "topic", h.Name, "partition", hp.index)
		return true, q.suspects.clear(h, hp)
	case inSync && len(q.others(p)) == 0:
		if m := hp.pendingRepair.Load(); m != nil && p.Epoch > m.above {
			if err := q.repairer.put(h, hp, t); err != nil {
				return false, err
			}
			if hp = h.Held(hp.index); condition(hp.state.Load()) == suspected { // as it was damaged
				return true, q.suspects.clear(h, hp)
			}
			return q.treat(h, hp, t) // which may lack something else
		}
		q.repairer.start(h, hp)
		return true, nil // there is nothing better
	case !inSync && state == suspected:
		return true, q.suspects.clear(h, hp) // it counts again once a leader has compared logs with it
	case !inSync && !q.suspects.canCopy(p):
		q.log.Error("damaged replica kept unchanged: no leader to copy from", "topic", h.Name, "partition", hp.index)
		q.roles.step(h, hp)
		return false, nil
	case !inSync:
		q.log.Warn("copying replica again from its leader", "topic", h.Name, "partition", hp.index)
		return true, q.startAnew(h, hp, t)
	case !leads && !q.suspects.reported(hp, p):
		q.roles.step(h, hp)
		q.suspects.report(h, hp.index, q.suspects.standing(hp))
		return false, nil
	case state == suspected && p.Leader == q.o.Self:
		q.log.Error("all in-sync replicas may have lost acknowledged messages; leading because this one holds the most", "topic", h.Name, "partition", hp.index)
		return true, q.suspects.clear(h, hp)
	case state == suspected:
		return true, nil // its leader takes it out of the in-sync set and compares logs
	case p.Leader == q.o.Self:
		q.handOn(h, hp.index)
		if condition(hp.state.Load()) == damaged {
			return true, nil // until another does
		}
	}
	q.roles.step(h, hp)
	return false, nil
}

// handOn has another in-sync replica lead a partition. If that cannot be done in
// order, because followers cannot be served from a damaged log, this replica is
// reported as suspect, which deposes it. Where no other can lead, this
// one continues after a pause, if it leads; one that has nothing to lead with tries
// again for as long as metadata says that it is to.
func (q *Quarantine) handOn(h *Topic, i int) {
	hp := h.Held(i)
	if hp != nil && !hp.handing.CompareAndSwap(false, true) {
		return
	}
	q.life.running.Go(func() {
		err := q.tryHandOn(h, i)
		if err != nil {
			q.log.Warn("damaged leader cannot transfer leadership; reporting it so that another replica is elected",
				"topic", h.Name, "partition", i, "error", err)
		}
		if err != nil && hp != nil && q.elsewhere(h, i) {
			q.suspects.report(h, i, q.suspects.standing(hp))
		}
		for err != nil && beat.Pause(q.life.ctx, handOnAgain) && hp != nil && q.mustLead(h, hp) {
			err = q.tryHandOn(h, i)
		}
		if hp == nil {
			return
		}
		hp.handing.Store(false)
		if lp := hp.Led.Load(); lp != nil && err != nil {
			lp.Part.Resume() // what is damaged is met again, and so is this
		}
	})
}

// mustLead reports whether metadata has a replica that is held here lead, and it
// does not.
func (q *Quarantine) mustLead(h *Topic, hp *Held) bool {
	t := q.o.Meta.Topic(h.Name)
	return t != nil && t.Incarnation == h.Incarnation && t.Partitions[hp.index].Leader == q.o.Self &&
		h.Held(hp.index) == hp && hp.Led.Load() == nil
}

func (q *Quarantine) tryHandOn(h *Topic, i int) error {
	ctx, cancel := context.WithTimeout(q.life.ctx, handOnTimeout)
	defer cancel()
	if h.Led(i) != nil {
		return q.leaderships.one(ctx, forward.Transfer{Topic: h.Name, Incarnation: h.Incarnation, Partition: i})
	}
	s := q.o.Meta.View()
	id := controller.PartitionID{Topic: h.Name, Incarnation: h.Incarnation, Partition: i}
	e, err := controller.Transfer(s, controller.ConditionsOf(s), id, "", false)
	if err != nil {
		return err
	}
	r, err := q.o.Meta.Propose(ctx, meta.ElectLeaders{Elections: []meta.Election{e}})
	return errors.Join(append(r.Failed, err)...)
}

// askForget is the operation by which a node asks the leader of a partition to drop
// what it believes of the replica here.
const askForget forward.Operation[forgetArgs, forward.Nothing] = "forget"

// forgetTimeout bounds how long the leader may take for that.
const forgetTimeout = time.Second

// forgetArgs name a replica that is about to be emptied.
type forgetArgs struct {
	Topic       string           `json:"topic"`
	Incarnation meta.Incarnation `json:"incarnation"`
	Partition   int              `json:"partition"`
	Epoch       seq.Epoch        `json:"epoch"`
	Node        meta.NodeID      `json:"node"`
}

// forgetHere drops what a term that is led here believes of a replica.
func (q *Quarantine) forgetHere(_ context.Context, a forgetArgs) (none forward.Nothing, err error) {
	h := q.topics.Lookup(a.Topic)
	if h == nil || h.Incarnation != a.Incarnation {
		return none, meta.ErrTopicNotFound
	}
	hp := h.Held(a.Partition)
	if hp == nil {
		return none, meta.ErrPartitionNotFound
	}
	return none, hp.Replica.Forget(a.Epoch, a.Node)
}

// forgotten has the leader of a partition drop what it believes of the replica
// here, which answers nobody any more: it held what is about to be set aside, and
// would join the in-sync set for that.
func (q *Quarantine) forgotten(h *Topic, p *meta.Partition, i int) error {
	ctx, cancel := context.WithTimeout(q.life.ctx, forgetTimeout)
	defer cancel()
	if _, err := askForget.Ask(ctx, q.o.Calls, p.Leader, forgetArgs{h.Name, h.Incarnation, i, p.Epoch, q.o.Self}); err != nil {
		return fmt.Errorf("set aside damaged replica: leader %s has not reset its state for it: %w", p.Leader, err)
	}
	return nil
}

// startAnew sets a replica's data aside and opens it empty.
func (q *Quarantine) startAnew(h *Topic, hp *Held, t *meta.Topic) error {
	q.roles.step(h, hp)
	if err := q.forgotten(h, &t.Partitions[hp.index], hp.index); err != nil {
		return err
	}
	q.topics.retire(hp)
	h.hold(hp.index, nil)
	if err := hp.Replica.Close(); err != nil {
		q.log.Warn("cannot close damaged replica", "topic", h.Name, "partition", hp.index, "error", err)
	}
	if err := q.setAside(h, t, hp.index); err != nil {
		return err
	}
	fresh, err := q.roles.openReplica(h, t, hp.index)
	if err != nil {
		return err
	}
	h.hold(hp.index, fresh)
	return nil
}

// errQuarantine is wrapped by what says that a replica is not there for as long as
// it is in the in-sync set.
var errQuarantine = errors.New("quarantined until it leaves the in-sync set")

// errNoCopy is wrapped by what says that damaged data stays in its place.
var errNoCopy = errors.New("kept unchanged: no leader to copy from")

// treatCorrupt decides what becomes of a replica that could not be opened. Where
// that is for what is on the disk, and others are in sync, it is set aside as soon
// as nobody counts on it: without an error it can be opened empty.
func (q *Quarantine) treatCorrupt(h *Topic, t *meta.Topic, i int, cause error) error {
	p := &t.Partitions[i]
	inSync := slices.Contains(p.ISR, q.o.Self)
	switch {
	case fate.Of(cause) != fate.Corrupt, len(q.others(p)) == 0:
		return cause
	case inSync:
		q.suspects.report(h, i, meta.Suspect{Missing: true}) // nothing of it can be served
		return fmt.Errorf("%w: %w", errQuarantine, cause)
	case !q.suspects.canCopy(p):
		return fmt.Errorf("%w: %w", errNoCopy, cause)
	}
	q.log.Error("copying replica again from its leader", "topic", h.Name, "partition", i, "error", cause)
	if err := q.setAside(h, t, i); err != nil {
		return err
	}
	return nil
}

// foundDamage is told of a damaged range that a consumer met. Where others are
// in sync, nothing is delivered until one of them leads.
func (q *Quarantine) foundDamage(h *Topic, hp *Held, err *commitlog.CorruptionError) {
	hp.Replica.Spoil(err)
	hp.spoil()
	if q.elsewhere(h, hp.index) {
		q.handOn(h, hp.index)
	} else {
		q.repairer.found(h, hp, err)
	}
}

// waits reports whether nobody is to be led past damage, as others may hold what is lost here.
func (q *Quarantine) waits(h *Topic, hp *Held, err *commitlog.CorruptionError) bool {
	return q.elsewhere(h, hp.index) || q.repairer.waits(h, hp, err)
}

// spoil notes that some of a replica cannot be read, and returns whether that was not known. One
// that was cut when it was opened is damaged from then on.
func (hp *Held) spoil() (first bool) {
	return hp.state.CompareAndSwap(int32(intact), int32(damaged)) || hp.state.CompareAndSwap(int32(suspected), int32(damaged))
}

// elsewhere reports whether other in-sync replicas hold what is damaged here.
func (q *Quarantine) elsewhere(h *Topic, i int) bool {
	t := h.Config()
	return i < len(t.Partitions) && len(q.others(&t.Partitions[i])) > 0
}

// inspect treats a copy that was found damaged since it was opened. One that leads
// while others are in sync hands over each time that damage is met.
func (q *Quarantine) inspect(h *Topic, hp *Held) {
	if !hp.Replica.Damaged() {
		return
	}
	first := hp.spoil()
	if first {
		q.log.Error("damaged replica", "topic", h.Name, "partition", hp.index)
	}
	switch {
	case hp.Led.Load() == nil:
	case q.elsewhere(h, hp.index):
		q.handOn(h, hp.index)
	default:
		q.repairer.start(h, hp)
	}
	if first {
		q.life.running.Go(func() { _ = q.converge(h.Name) }) // what fails is tried again with the next change
	}
}

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/commitlog"
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
// is out, its data is set aside and it is copied anew. It has acknowledged nothing
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

// quarantine is how a node treats replicas whose data is not intact.
type quarantine struct{ n *Host }

// others returns the in-sync replicas of a partition besides this node.
func (q quarantine) others(p *meta.Partition) []meta.NodeID {
	return slices.DeleteFunc(slices.Clone(p.ISR), func(id meta.NodeID) bool { return id == q.n.o.Self })
}

// lost says whether a replica that finds nothing in its directory has lost what it
// held: the ledger says that it was made here, and it is in the in-sync set. A
// replica that was never made here, or that is out of sync, has nothing to lose.
func (q quarantine) lost(h *Topic, t *meta.Topic, i int, names []string) bool {
	bare := !slices.ContainsFunc(names, func(name string) bool { return !strings.HasSuffix(name, vfs.TempSuffix) })
	return bare && q.n.ledger.Has(datadir.ReplicaName(h.Name, h.Incarnation, i)) && slices.Contains(t.Partitions[i].ISR, q.n.o.Self)
}

// look returns what is known of a replica's data by what its directory holds
// before its log is opened. It makes the replica if it is not there.
func (q quarantine) look(h *Topic, t *meta.Topic, i int) (condition, error) {
	dir := q.n.dirs.Replica(t, i)
	names, err := h.fs.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return intact, err
	}
	if err := vfs.MkdirAllSynced(h.fs, dir); err != nil {
		return intact, err
	}
	if slices.Contains(names, datadir.MarkMissing) {
		return missing, nil
	}
	if q.lost(h, t, i, names) {
		q.n.log.Error("in-sync replica has no data", "topic", t.Name, "partition", i, "path", dir)
		if len(t.Partitions[i].Replicas) > 1 {
			return missing, vfs.MarkSynced(h.fs, filepath.Join(dir, datadir.MarkMissing))
		}
		// there is no other copy to wait for
		if err := vfs.MarkSynced(h.fs, filepath.Join(dir, datadir.MarkLost)); err != nil {
			return intact, err
		}
	}
	if !slices.Contains(names, datadir.MarkReplica) {
		if err := vfs.MarkSynced(h.fs, filepath.Join(dir, datadir.MarkReplica)); err != nil {
			return intact, err
		}
	}
	if h.fs != q.n.o.FS {
		return intact, nil // it is in memory
	}
	return intact, q.n.ledger.Enter(datadir.ReplicaName(h.Name, h.Incarnation, i))
}

// treat brings a replica whose data is not intact a step further, and returns
// whether it may have a role meanwhile.
func (q quarantine) treat(h *Topic, hp *Held, t *meta.Topic) (serves bool, err error) {
	p := &t.Partitions[hp.index]
	state, inSync := condition(hp.state.Load()), slices.Contains(p.ISR, q.n.o.Self)
	switch {
	case inSync && len(q.others(p)) == 0 && state == missing:
		q.n.log.Error("only in-sync replica has no data; elect another replica manually", "topic", h.Name, "partition", hp.index)
		q.n.step(h, hp)
		return false, nil
	case inSync && len(q.others(p)) == 0 && state == suspected:
		q.n.log.Error("only in-sync replica was truncated when opened; acknowledged messages may be lost", "topic", h.Name, "partition", hp.index)
		return true, suspicion(q).clear(h, hp)
	case inSync && len(q.others(p)) == 0:
		return true, nil // there is nothing better
	case !inSync && state == suspected:
		return true, suspicion(q).clear(h, hp) // it counts again once a leader has compared logs with it
	case !inSync && !suspicion(q).canCopy(p):
		q.n.log.Error("damaged replica kept unchanged: no leader to copy from", "topic", h.Name, "partition", hp.index)
		q.n.step(h, hp)
		return false, nil
	case !inSync:
		q.n.log.Warn("copying replica again from its leader", "topic", h.Name, "partition", hp.index)
		return true, q.startAnew(h, hp, t)
	case hp.Led.Load() == nil && !suspicion(q).reported(hp, p):
		q.n.step(h, hp)
		suspicion(q).report(h, hp.index, suspicion(q).standing(hp))
		return false, nil
	case state == suspected && p.Leader == q.n.o.Self:
		q.n.log.Error("all in-sync replicas may have lost acknowledged messages; leading because this one holds the most", "topic", h.Name, "partition", hp.index)
		return true, suspicion(q).clear(h, hp)
	case state == suspected:
		return true, nil // its leader takes it out of the in-sync set and compares logs
	case p.Leader == q.n.o.Self:
		q.handOn(h, hp.index)
		if condition(hp.state.Load()) == damaged {
			return true, nil // until another does
		}
	}
	q.n.step(h, hp)
	return false, nil
}

// handOn has another in-sync replica lead a partition. If that cannot be done in
// order, because followers cannot be served from a damaged log, this replica is
// reported as suspect, which deposes it. Where no other can lead, this
// one goes on after a pause, if it leads; one that has nothing to lead with tries
// again for as long as metadata says that it is to.
func (q quarantine) handOn(h *Topic, i int) {
	hp := h.Held(i)
	if hp != nil && !hp.handing.CompareAndSwap(false, true) {
		return
	}
	q.n.running.Go(func() {
		err := q.tryHandOn(h, i)
		if err != nil {
			q.n.log.Warn("damaged leader cannot transfer leadership; reporting it so that another replica is elected",
				"topic", h.Name, "partition", i, "error", err)
		}
		if err != nil && hp != nil && q.elsewhere(h, i) {
			suspicion(q).report(h, i, suspicion(q).standing(hp))
		}
		for err != nil && beat.Pause(q.n.life, handOnAgain) && hp != nil && q.mustLead(h, hp) {
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

// mustLead says whether metadata has a replica that is held here lead, and it
// does not.
func (q quarantine) mustLead(h *Topic, hp *Held) bool {
	t := q.n.o.Meta.Topic(h.Name)
	return t != nil && t.Incarnation == h.Incarnation && t.Partitions[hp.index].Leader == q.n.o.Self &&
		h.Held(hp.index) == hp && hp.Led.Load() == nil
}

func (q quarantine) tryHandOn(h *Topic, i int) error {
	ctx, cancel := context.WithTimeout(q.n.life, handOnTimeout)
	defer cancel()
	if h.Led(i) != nil {
		return handovers(q).one(ctx, forward.Transfer{Topic: h.Name, Incarnation: h.Incarnation, Partition: i})
	}
	s := q.n.o.Meta.View()
	id := controller.PartitionID{Topic: h.Name, Incarnation: h.Incarnation, Partition: i}
	e, err := controller.Transfer(s, controller.ConditionsOf(s), id, "", false)
	if err != nil {
		return err
	}
	r, err := q.n.o.Meta.Propose(ctx, meta.ElectLeaders{Elections: []meta.Election{e}})
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
func (q quarantine) forgetHere(_ context.Context, a forgetArgs) (none forward.Nothing, err error) {
	h := q.n.Lookup(a.Topic)
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
func (q quarantine) forgotten(h *Topic, p *meta.Partition, i int) error {
	ctx, cancel := context.WithTimeout(q.n.life, forgetTimeout)
	defer cancel()
	if _, err := askForget.Ask(ctx, q.n.calls, p.Leader, forgetArgs{h.Name, h.Incarnation, i, p.Epoch, q.n.o.Self}); err != nil {
		return fmt.Errorf("set aside damaged replica: leader %s has not reset its state for it: %w", p.Leader, err)
	}
	return nil
}

// startAnew sets a replica's data aside and opens it empty.
func (q quarantine) startAnew(h *Topic, hp *Held, t *meta.Topic) error {
	q.n.step(h, hp)
	if err := q.forgotten(h, &t.Partitions[hp.index], hp.index); err != nil {
		return err
	}
	q.n.retire(hp)
	h.hold(hp.index, nil)
	if err := hp.Replica.Close(); err != nil {
		q.n.log.Warn("cannot close damaged replica", "topic", h.Name, "partition", hp.index, "error", err)
	}
	if err := q.setAside(h, t, hp.index); err != nil {
		return err
	}
	fresh, err := q.n.openReplica(h, t, hp.index)
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
func (q quarantine) treatCorrupt(h *Topic, t *meta.Topic, i int, cause error) error {
	p := &t.Partitions[i]
	inSync := slices.Contains(p.ISR, q.n.o.Self)
	switch {
	case fate.Of(cause) != fate.Corrupt, len(q.others(p)) == 0:
		return cause
	case inSync:
		suspicion(q).report(h, i, meta.Suspect{Missing: true}) // nothing of it can be served
		return fmt.Errorf("%w: %w", errQuarantine, cause)
	case !suspicion(q).canCopy(p):
		return fmt.Errorf("%w: %w", errNoCopy, cause)
	}
	q.n.log.Error("copying replica again from its leader", "topic", h.Name, "partition", i, "error", cause)
	if err := q.setAside(h, t, i); err != nil {
		return err
	}
	return nil
}

// foundDamage is told of a damaged range that a consumer met. Where others are
// in sync, nothing is delivered until one of them leads.
func (q quarantine) foundDamage(h *Topic, hp *Held, err *commitlog.CorruptionError) {
	hp.Replica.Spoil(err)
	hp.state.CompareAndSwap(int32(intact), int32(damaged))
	if q.elsewhere(h, hp.index) {
		q.handOn(h, hp.index)
	}
}

// elsewhere says whether other in-sync replicas hold what is damaged here.
func (q quarantine) elsewhere(h *Topic, i int) bool {
	t := h.Config()
	return i < len(t.Partitions) && len(q.others(&t.Partitions[i])) > 0
}

// inspect treats a copy that was found damaged since it was opened. One that leads
// while others are in sync hands over each time that damage is met.
func (q quarantine) inspect(h *Topic, hp *Held) {
	if !hp.Replica.Damaged() {
		return
	}
	first := hp.state.CompareAndSwap(int32(intact), int32(damaged))
	if first {
		q.n.log.Error("damaged replica", "topic", h.Name, "partition", hp.index)
	}
	if hp.Led.Load() != nil && q.elsewhere(h, hp.index) {
		q.handOn(h, hp.index)
	}
	if first {
		q.n.running.Go(func() { _ = q.n.Converge(h.Name) }) // what fails is tried again with the next change
	}
}

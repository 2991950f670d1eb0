package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord/controller"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// A replica whose data is damaged, or gone though it should be there, is in
// quarantine while others are in sync: it answers no leader, which takes it out of
// the in-sync set, and leads only until another does. Once metadata says that it
// is out, its data is set aside and it is copied anew. It has acknowledged nothing
// since the damage was known, so nobody counts on what it lacks. What was set
// aside goes once the replica is in sync again. The only in-sync replica serves
// what is left of its data.

// handOnTimeout bounds how long a replica in quarantine tries to have another
// lead in its place, and handOnAgain is how long it then waits.
const (
	handOnTimeout = 5 * time.Second
	handOnAgain   = time.Second
)

// condition is what is known of a replica's data.
type condition int32

const (
	intact  condition = iota
	damaged           // some of it cannot be read
	missing           // it was there once, by what metadata says
)

// quarantine is how a node treats replicas whose data is not intact.
type quarantine struct{ *hosting }

// others returns the in-sync replicas of a partition besides this node.
func (q quarantine) others(p *meta.Partition) []meta.NodeID {
	return slices.DeleteFunc(slices.Clone(p.ISR), func(id meta.NodeID) bool { return id == q.o.Self })
}

// markMissing is a file in the directory of a replica whose data is missing, so
// that this is known until it is copied anew, however often the node starts.
const markMissing = "missing"

// suspect says whether a replica that finds nothing of its own on disk must have
// held something: it is in the in-sync set, and was here when the node started,
// or until this node let go of it. Metadata may say both at once to a node that
// was behind. What comes to a node otherwise has nothing to lose.
func (q quarantine) suspect(h *hostedTopic, t *meta.Topic, i int) bool {
	was := h.parted[i] || q.opening.Load() && uint64(t.Incarnation) <= q.began
	return was && slices.Contains(t.Partitions[i].ISR, q.o.Self)
}

// look returns what is known of a replica's data by what its directory, which is
// made if need be, holds before its log is opened.
func (q quarantine) look(h *hostedTopic, t *meta.Topic, i int) (condition, error) {
	dir := q.dirs.partition(t, i)
	names, err := h.fs.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return intact, err
	}
	if err := vfs.MkdirAllSynced(h.fs, dir); err != nil {
		return intact, err
	}
	if slices.Contains(names, markMissing) {
		return missing, nil
	}
	if len(names) > 0 || !q.suspect(h, t, i) {
		return intact, nil
	}
	q.log.Error("a replica that was in sync has no data", "topic", t.Name, "partition", i, "path", dir)
	if len(t.Partitions[i].Replicas) == 1 {
		return intact, nil // there is no other copy to wait for
	}
	return missing, vfs.WriteFileSynced(h.fs, filepath.Join(dir, markMissing), nil)
}

// treat brings a replica whose data is not intact a step further, and returns
// whether it may have a role meanwhile.
func (q quarantine) treat(h *hostedTopic, hp *hostedPartition, t *meta.Topic) (serves bool, err error) {
	p := &t.Partitions[hp.index]
	inSync := slices.Contains(p.ISR, q.o.Self)
	switch {
	case inSync && len(q.others(p)) == 0 && condition(hp.state.Load()) == missing:
		q.log.Error("the only replica in sync has no data: another is to be elected by hand", "topic", h.name, "partition", hp.index)
		q.step(h, hp)
		return false, nil
	case inSync && len(q.others(p)) == 0:
		return true, nil // there is nothing better
	case !inSync:
		q.log.Warn("a replica is copied anew", "topic", h.name, "partition", hp.index)
		return true, q.startAnew(h, hp, t)
	case p.Leader == q.o.Self:
		q.handOn(h, hp.index)
		if condition(hp.state.Load()) == damaged {
			return true, nil // until another does
		}
	}
	q.step(h, hp)
	return false, nil
}

// handOn has another in-sync replica lead a partition. Where nobody can, this
// one goes on after a pause, if it leads; one that has nothing to lead with tries
// again for as long as metadata says that it is to.
func (q quarantine) handOn(h *hostedTopic, i int) {
	hp := h.at(i)
	if hp != nil && !hp.handing.CompareAndSwap(false, true) {
		return
	}
	q.running.Go(func() {
		err := q.tryHandOn(h, i)
		if err != nil {
			q.log.Warn("a damaged replica leads, and cannot hand over", "topic", h.name, "partition", i, "error", err)
		}
		for err != nil && pause(q.life, handOnAgain) && hp != nil && q.mustLead(h, hp) {
			err = q.tryHandOn(h, i)
		}
		if hp == nil {
			return
		}
		hp.handing.Store(false)
		if lp := hp.led.Load(); lp != nil && err != nil {
			lp.part.Resume() // what is damaged is met again, and so is this
		}
	})
}

// mustLead says whether metadata has a replica that is held here lead, and it
// does not.
func (q quarantine) mustLead(h *hostedTopic, hp *hostedPartition) bool {
	t := q.o.Meta.Topic(h.name)
	return t != nil && t.Incarnation == h.incarnation && t.Partitions[hp.index].Leader == q.o.Self &&
		h.at(hp.index) == hp && hp.led.Load() == nil
}

func (q quarantine) tryHandOn(h *hostedTopic, i int) error {
	ctx, cancel := context.WithTimeout(q.life, handOnTimeout)
	defer cancel()
	if h.leds(i) != nil {
		return handovers(q).one(ctx, handoverArgs{Topic: h.name, Partition: i})
	}
	s := q.o.Meta.View()
	id := controller.PartitionID{Topic: h.name, Incarnation: h.incarnation, Partition: i}
	e, err := controller.Transfer(s, conditions(s), id, "", false)
	if err != nil {
		return err
	}
	r, err := q.o.Meta.Propose(ctx, meta.ElectLeaders{Elections: []meta.Election{e}})
	return errors.Join(append(r.Failed, err)...)
}

// startAnew sets a replica's data aside and opens it empty.
func (q quarantine) startAnew(h *hostedTopic, hp *hostedPartition, t *meta.Topic) error {
	q.step(h, hp)
	q.retire(hp)
	h.hold(hp.index, nil)
	if err := hp.replica.Close(); err != nil {
		q.log.Warn("closing a damaged replica", "topic", h.name, "partition", hp.index, "error", err)
	}
	if err := q.setAside(h, t, hp.index); err != nil {
		return err
	}
	fresh, err := q.openReplica(h, t, hp.index)
	if err != nil {
		return err
	}
	h.hold(hp.index, fresh)
	return nil
}

// setAside moves a replica's data to where it can be looked at until the replica
// is in sync again.
func (q quarantine) setAside(h *hostedTopic, t *meta.Topic, i int) error {
	dir := q.dirs.partition(t, i)
	q.damage.forget(dir)
	return q.move(dir, q.dirs.quarantine(), fmt.Sprintf("%s.%d.%d", topicDir(h.name, h.incarnation), i, t.Partitions[i].Version))
}

// release drops what was set aside of replicas that are in sync again, or that
// this node no longer holds.
func (q quarantine) release() {
	names, err := q.o.FS.ReadDir(q.dirs.quarantine())
	if err != nil {
		return
	}
	for _, name := range names {
		at, i, ok := parseAside(name)
		if !ok {
			continue
		}
		topic, in, ok := parseTopicDir(at)
		if !ok {
			continue
		}
		t := q.o.Meta.Topic(topic)
		kept := t != nil && t.Incarnation == in && i < len(t.Partitions) &&
			slices.Contains(t.Partitions[i].Replicas, q.o.Self) && !slices.Contains(t.Partitions[i].ISR, q.o.Self)
		if kept {
			continue
		}
		if err := q.trash(filepath.Join(q.dirs.quarantine(), name), name); err != nil {
			q.log.Warn("dropping a damaged replica that was copied anew", "path", name, "error", err)
		}
	}
}

// parseAside takes the name of something that was set aside apart.
func parseAside(name string) (topicDir string, partition int, ok bool) {
	words := strings.Split(name, ".")
	n := len(words) - 2 // the partition; its version is behind it
	if n < 1 {
		return "", 0, false
	}
	partition, err := strconv.Atoi(words[n])
	return strings.Join(words[:n], "."), partition, err == nil
}

// errQuarantine is wrapped by what says that a replica is not there for as long as
// it is in the in-sync set.
var errQuarantine = errors.New("in quarantine until others go on without it")

// treatCorrupt decides what becomes of a replica that could not be opened. Where
// that is for what is on the disk, and others are in sync, it is set aside as soon
// as nobody counts on it: without an error it can be opened empty.
func (q quarantine) treatCorrupt(h *hostedTopic, t *meta.Topic, i int, cause error) error {
	p := &t.Partitions[i]
	switch {
	case fate.Of(cause) != fate.Corrupt, len(q.others(p)) == 0:
		return cause
	case slices.Contains(p.ISR, q.o.Self):
		if p.Leader == q.o.Self {
			q.handOn(h, i)
		}
		return fmt.Errorf("%w: %w", errQuarantine, cause)
	}
	q.log.Error("a replica is copied anew", "topic", h.name, "partition", i, "error", cause)
	if err := q.setAside(h, t, i); err != nil {
		return err
	}
	return nil
}

// foundDamage is told of a damaged range that a consumer met. Where others are
// in sync, nothing is delivered until one of them leads.
func (q quarantine) foundDamage(h *hostedTopic, hp *hostedPartition, err *commitlog.CorruptionError) {
	q.reportDamage(h.name, hp.index, err)
	hp.state.CompareAndSwap(int32(intact), int32(damaged))
	if q.elsewhere(h, hp.index) {
		q.handOn(h, hp.index)
	}
}

// elsewhere says whether other in-sync replicas hold what is damaged here.
func (q quarantine) elsewhere(h *hostedTopic, i int) bool {
	t := h.config.Load()
	return i < len(t.Partitions) && len(q.others(&t.Partitions[i])) > 0
}

// inspect looks whether a follower has found its copy damaged.
func (q quarantine) inspect(h *hostedTopic, hp *hostedPartition) {
	if !hp.replica.Damaged() || !hp.state.CompareAndSwap(int32(intact), int32(damaged)) {
		return
	}
	q.log.Error("a replica is damaged", "topic", h.name, "partition", hp.index)
	q.running.Go(func() { _ = q.converge(h.name) }) // what fails is tried again with the next change
}

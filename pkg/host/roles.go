package host

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/repair"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/lease"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/once"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/positions"
	"github.com/brokerd/brokerd/pkg/quarantine"
	"github.com/brokerd/brokerd/pkg/removal"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stall"
	"github.com/brokerd/brokerd/pkg/topic"
	"github.com/brokerd/brokerd/pkg/trace"
)

// ErrLedElsewhere is sent to the consumers of a partition when this node stops leading it.
var ErrLedElsewhere = fate.Refuse("another node leads the partition")

// Held is a replica on this node. It leads or is on standby, that is, it follows the leader or
// waits for one. Its role changes only in the partition's lane.
type Held struct {
	index   int
	name    string // datadir.ReplicaName
	dir     string
	Replica *coord.Replica
	Led     atomic.Pointer[Led]               // nil if it does not lead
	Standby atomic.Pointer[positions.Standby] // nil if it is not on standby
	lease   atomic.Pointer[lease.Lease]       // of the last term; nil if there was none, or this node is alone

	state        atomic.Int32              // a condition
	announced    atomic.Pointer[announced] // what is in flight at the leader that wants this node to lead next; nil: not known
	transferring atomic.Bool               // another replica is to lead because of the state
	view         coord.View                // the view that the role is based on; zero: no role. Used in the partition's lane
	matched      atomic.Pointer[matched]   // the last metadata applied without an error; nil: none

	endBefore     seq.Offset     // of the log at the last round of retention; only its goroutine uses it
	idle          bool           // nothing was appended in the last round; likewise
	recordedAt    time.Time      // when the durable end was last recorded, whatever the amount; likewise
	storing       atomic.Bool    // its positions are being stored
	unstored      bool           // the last checkpoint failed; used by the goroutine that stores
	unreadable    time.Time      // since when its positions keep it from leading; zero: they do not. Used in the partition's lane
	handedOn      time.Time      // when another replica was last asked to lead because of them; likewise
	salvaged      atomic.Bool    // it leads without its stored positions
	repairing     atomic.Bool    // other replicas are being asked for what it cannot read
	sought        *repair.Sought // the state of these requests
	pendingRepair atomic.Pointer[pendingRepair]
	repaired      int         // how often it was reopened with others' batches
	lost          atomic.Bool // its directory had lost everything, and no operator has accepted that yet
	unretained    bool        // the last round of retention failed; used by its goroutine
}

// matched is the metadata that a replica was last made to match.
type matched struct {
	topic    *meta.Topic
	view     coord.View
	defaults policy.Policy // of channels
}

// Name returns the name of the replica on this node.
func (hp *Held) Name() string { return hp.name }

// untreated reports whether a replica that is not intact follows as if it were.
func (hp *Held) untreated() bool {
	return condition(hp.state.Load()) != intact && hp.Standby.Load() != nil
}

// Led is a partition while this node leads it in one epoch. Its fields do not change. After the
// leadership has ended, its term refuses all operations.
type Led struct {
	Index   int
	Replica *coord.Replica
	Term    *coord.Term
	Part    *topic.Partition
	Lease   *lease.Lease         // nil: this node is alone
	leaving atomic.Bool          // it is being transferred
	Letters deadletter.Processor // redrives and purges dead letters, if it is a partition of a dead-letter topic
	Once    once.Switch          // accepts messages with dedup ids
	// Damaged handles damage that a reader met, and reports whether other replicas may hold the range.
	Damaged func(*commitlog.CorruptionError) (elsewhere bool)
}

// Nodes are the nodes that a topic's partitions refer to.
type Nodes map[meta.NodeID]*meta.Node

// roles gives the replicas of a node the roles that the metadata says. Its methods run in the lanes
// of the partitions.
type roles struct {
	o          *Options
	log        *slog.Logger
	dirs       datadir.Dir
	life       *life
	removal    *removal.Remover
	topics     *Topics
	damage     *repair.Known
	disk       *diskspace.Space
	stalls     *stall.Board
	terms      *terms
	timers     *timers
	unsaved    *unsaved
	shifts     *shifts
	isr        *proposer
	leavers    *leavers
	quarantine *Quarantine
	suspects   *quarantine.Suspects
	budget     *coord.Budget // of uncommitted bytes, for all terms
	credits    *coord.Credits
	catchUp    *replication.CatchUp // of replicas that are not in sync, shared by all terms
	onDisk     atomic.Bool          // the directories of replicas that are opened now were synced
}

// viewOf returns the metadata of partition i in the form that its replicas use.
func (rs *roles) viewOf(t *meta.Topic, i int, nodes Nodes) coord.View {
	p := &t.Partitions[i]
	v := coord.View{
		Epoch: p.Epoch, Version: p.Version, Leader: p.Leader, ISR: p.ISR,
		MinISR: t.Config.MinISR, Sync: t.Config.Sync, Unclean: p.Unclean, Replicas: make([]coord.ReplicaView, len(p.Replicas)),
	}
	for k, id := range p.Replicas {
		v.Replicas[k] = coord.ReplicaView{Node: id, Down: true}
		v.Replicas[k].SuspectAs(p)
		if node := nodes[id]; node != nil {
			v.Replicas[k].Incarnation, v.Replicas[k].Full = node.Incarnation, node.DiskFull
			v.Replicas[k].Down = node.State == meta.NodeDown || rs.leavers.has(node)
		}
	}
	return v
}

// sameView reports whether two views are equal. Two of one version have the same replicas and
// in-sync set.
func sameView(a, b coord.View) bool {
	return a.Epoch == b.Epoch && a.Version == b.Version && a.Leader == b.Leader &&
		a.MinISR == b.MinISR && a.Sync == b.Sync && slices.Equal(a.Replicas, b.Replicas)
}

// adopt gives one partition the role that the metadata says for this node.
func (rs *roles) adopt(h *Topic, t *meta.Topic, i int, nodes Nodes) error {
	held := slices.Contains(t.Partitions[i].Replicas, rs.o.Self)
	hp := h.Held(i)
	switch {
	case !held && hp == nil:
		h.hold(i, nil)
		return nil
	case !held:
		return rs.letGo(h, hp, t.Partitions[i].Version)
	case hp == nil:
		var err error
		if hp, err = rs.openReplica(h, t, i); err != nil {
			if err = rs.quarantine.treatCorrupt(h, t, i, err); err == nil {
				hp, err = rs.openReplica(h, t, i)
			}
		}
		if h.hold(i, hp); err != nil {
			return err
		}
	}
	v := rs.viewOf(t, i, nodes)
	if sameView(hp.view, v) && !hp.untreated() {
		return nil
	}
	serves, err := true, error(nil)
	if condition(hp.state.Load()) != intact {
		if serves, err = rs.quarantine.treat(h, hp, t); err != nil {
			return err
		}
		hp = h.Held(i) // it may have been replaced
	}
	if serves {
		err = rs.assume(h, hp, t, v)
	}
	switch {
	case errors.Is(err, commitlog.ErrFenced):
		// The replica knows a newer epoch than the metadata applied here. The metadata will catch
		// up.
		rs.log.Debug("local metadata is behind a replica; waiting", "topic", h.Name, "partition", i, "epoch", v.Epoch, "error", err)
	case err != nil:
		return err
	}
	hp.view = v
	return nil
}

// assume gives a replica the role that the metadata says. On an error it has none, and the next run
// retries.
func (rs *roles) assume(h *Topic, hp *Held, t *meta.Topic, v coord.View) error {
	lp := hp.Led.Load()
	switch leads := v.Leader == rs.o.Self; {
	case leads && lp != nil && lp.Term.Epoch() == v.Epoch:
		lp.Term.Update(v)
		rs.terms.track(lp)
		rs.unsaved.add(h, hp) // there may be new replicas to share positions with
		return nil
	case leads:
		rs.step(h, hp)
		return rs.lead(h, hp, t, v)
	case hp.Standby.Load() != nil && hp.view.Epoch == v.Epoch && hp.view.Sync == v.Sync:
		return nil // a follower is not affected
	}
	if lp != nil {
		rs.step(h, hp)
	}
	return rs.follow(h, hp, v)
}

// lead makes this node lead a partition in the epoch of the metadata. There is one term per epoch.
// If a channel's start cannot be stored, for example on a full disk, the node leads nevertheless,
// and the next run retries. No client knows yet that the channel exists.
func (rs *roles) lead(h *Topic, hp *Held, t *meta.Topic, v coord.View) error {
	lp := &Led{Index: hp.index, Replica: hp.Replica}
	lp.Damaged = func(err *commitlog.CorruptionError) bool {
		elsewhere := rs.quarantine.waits(h, hp, err)
		rs.quarantine.foundDamage(h, hp, err)
		return elsewhere
	}
	var err error
	if lp.Part, err = rs.openPart(h, hp, lp, v); err != nil {
		return err
	}
	if err := hp.Replica.Lead(v, lp.committed); err != nil {
		return errors.Join(err, lp.Part.Close(err))
	}
	lp.Term = hp.Replica.Term()
	if lp.Lease != nil {
		lp.Lease.Begin(lp.Term.Confirmed, func() { rs.terms.activate(lp.Term) })
	}
	lp.Part.Serve(lp.Term)
	adopted := lp.adopt(h, t, rs.o.Meta.Settings().ChannelDefaults(), nil)
	hp.Led.Store(lp)
	rs.terms.track(lp)
	rs.unsaved.add(h, hp) // earlier notifications found no term
	h.publishLed()
	rs.shifts.begin(rs.log, h.Name, lp)
	h.tellWatchers()
	return adopted
}

func (rs *roles) openPart(h *Topic, hp *Held, lp *Led, v coord.View) (*topic.Partition, error) {
	q := rs.quarantine
	o := topic.Options{
		Index: hp.index, FS: h.fs, Dir: hp.dir, Log: hp.Replica.Log(), Arm: rs.timers.arm, Observer: rs.o.Observer,
		Ages:             hp.Replica.Ages(),
		LatencyWindow:    rs.o.LatencyWindow,
		Moves:            rs.o.Moves,
		Trace:            trace.Source{Store: rs.o.Trace, Incarnation: uint64(h.Incarnation), Partition: hp.index, Numbering: h.ids},
		Damaged:          func(err *commitlog.CorruptionError) { q.foundDamage(h, hp, err) },
		Elsewhere:        func(err *commitlog.CorruptionError) bool { return q.waits(h, hp, err) },
		PositionsDamaged: func(err error, lost bool) { q.reportPositions(h, hp, err, lost) },
		Salvage:          q.salvages(hp, v),
		Unsaved:          func() { rs.unsaved.add(h, hp) },
		Exhausted: func(c *topic.Channel) {
			rs.o.Exhausted(deadletter.Source{Topic: h.Name, Partition: hp.index, Channel: c, Numbering: h.ids})
		},
	}
	if rs.o.Peers != nil {
		lp.Lease = lease.New(rs.terms.contact, v.Epoch, func() bool { return rs.topics.leads(h, hp.index, v.Epoch) })
		hp.lease.Store(lp.Lease)
		o.Leased = lp.Lease.Held
	}
	o.InFlight, o.Gone = hp.inherited(v.Epoch, time.Now()), rs.isGone
	part, err := topic.Open(o)
	return part, q.openedPositions(h, hp, v, err)
}

// follow puts a replica on standby: it follows the leader that the metadata names, or waits for
// one.
func (rs *roles) follow(h *Topic, hp *Held, v coord.View) error {
	s := hp.Standby.Load()
	if s == nil {
		var err error
		intact := true
		s, err = positions.OpenStandby(positions.StandbyOptions{
			FS: h.fs, Dir: hp.dir, End: hp.Replica.Log().End(),
			Damaged: func(err error) {
				intact = false
				rs.quarantine.reportPositions(h, hp, err, false)
			},
			Unsaved: func() { rs.unsaved.add(h, hp) },
		})
		if err != nil {
			return err
		}
		hp.Standby.Store(s)
		if intact {
			hp.unreadable = time.Time{}
		}
	}
	rs.log.Debug("replica on standby", "topic", h.Name, "partition", hp.index, "epoch", v.Epoch, "leader", v.Leader)
	if v.Leader == "" {
		return hp.Replica.Rest(v)
	}
	return hp.Replica.Follow(v, s)
}

// resign ends the role of a replica. Consumers receive the reason. As they leave, their messages in
// flight become ready for others.
func (rs *roles) resign(h *Topic, hp *Held, reason error) error {
	hp.view = coord.View{}
	hp.matched.Store(nil)
	hp.salvaged.Store(false)
	var errs []error
	if lp := hp.Led.Swap(nil); lp != nil {
		rs.terms.forget(lp)
		h.publishLed()
		rs.shifts.end(rs.log, h.Name, lp, reason)
		// Stop the term first: its commits still wake channels.
		errs = append(errs, lp.Term.Stop(), lp.Part.Close(reason))
		lp.Once.Close()
		h.tellWatchers()
	}
	if s := hp.Standby.Swap(nil); s != nil {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// step ends the role of a replica before it gets another. A failure is logged and prevents nothing.
func (rs *roles) step(h *Topic, hp *Held) {
	if err := rs.resign(h, hp, ErrLedElsewhere); err != nil {
		rs.log.Warn("cannot end the role of a replica cleanly; recently finished messages may be redelivered", "topic", h.Name, "partition", hp.index, "error", err)
	}
}

// letGo closes a replica that the metadata no longer assigns to this node, and moves its data to
// the trash. version is the partition's.
func (rs *roles) letGo(h *Topic, hp *Held, version uint64) error {
	rs.step(h, hp)
	rs.topics.retire(hp)
	h.hold(hp.index, nil)
	if err := hp.Replica.Close(); err != nil {
		rs.log.Warn("cannot close a replica that is no longer assigned to this node; its data is removed nevertheless", "topic", h.Name, "partition", hp.index, "error", err)
	}
	if h.fs != rs.o.FS {
		return nil // an ephemeral topic has no data on disk
	}
	rs.damage.Forget(hp.dir)
	return rs.removal.Remove(hp.dir, datadir.AsideName(h.Name, h.Incarnation, hp.index, version))
}

// match applies the metadata of the topic's channels to a replica that this node leads. It has then applied all
// metadata without an error.
func (hp *Held) match(h *Topic, t *meta.Topic, defaults policy.Policy) error {
	if lp := hp.Led.Load(); lp != nil {
		if err := lp.adopt(h, t, defaults, hp.matched.Load()); err != nil {
			hp.matched.Store(nil) // some channels are as t says, others are not
			return err
		}
	}
	hp.matched.Store(&matched{t, hp.view, defaults})
	return nil
}

// changedChannels returns the channels of a topic that the metadata applied before does not have, or not with the same
// settings and policy, in the order of their creation: the first one gets the backlog.
func (m *matched) changedChannels(t *meta.Topic, defaults policy.Policy) []*meta.Channel {
	var before map[string]*meta.Channel
	if m != nil && m.defaults == defaults && m.topic.Config.Channels == t.Config.Channels {
		before = m.topic.Channels
	}
	var changed []*meta.Channel
	for name, c := range t.Channels {
		if before[name] != c { // each change of a channel makes another value
			changed = append(changed, c)
		}
	}
	slices.SortFunc(changed, func(a, b *meta.Channel) int { return cmp.Compare(a.Version, b.Version) })
	return changed
}

// adopt applies the metadata of a topic's channels, with the cluster's defaults, to those that are not as in the
// metadata applied before. A failure of one channel does not affect the others.
func (lp *Led) adopt(h *Topic, t *meta.Topic, defaults policy.Policy, before *matched) error {
	lp.Part.Configure(topic.Settings{Paused: t.Paused, TTL: t.Config.TTL, Trace: t.Config.Trace})
	errs := []error{lp.setWindow(&t.Config)}
	for _, m := range before.changedChannels(t, defaults) {
		c, err := lp.Part.AddChannel(m.Name, uint64(m.Version), topic.ChannelOptions{Order: m.Order, Paused: m.Paused, First: m.First, Filter: m.Filter, Former: m.FormerVersions()})
		if h.govern(c, t, defaults); err != nil {
			errs = append(errs, &channelError{m.Name, err})
		}
	}
	for _, c := range lp.Part.Channels() {
		switch {
		case c.Ephemeral(): // the metadata applied before does not say which policy it has: see AddEphemeral
			h.govern(c, t, defaults)
		case t.Channels[c.Name()] == nil:
			if err := lp.Part.RemoveChannel(c.Name()); err != nil && !errors.Is(err, failure.ChannelNotFound) {
				errs = append(errs, &channelError{c.Name(), err})
			}
			h.Rates.Forget(c.Name(), func() bool { return Serves(h, c.Name()) })
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	lp.Part.ChannelsComplete()
	return nil
}

// Checkpoint stores the channels' positions.
func (hp *Held) Checkpoint() error {
	if lp := hp.Led.Load(); lp != nil {
		return lp.Part.Checkpoint()
	}
	if s := hp.Standby.Load(); s != nil {
		return s.Checkpoint()
	}
	return nil
}

// retain drops messages of this replica that no channel needs and no policy keeps, or that exceed a
// size. A leader returns how many of them some channel had not finished. A follower uses the
// positions received from the leader.
func (hp *Held) retain(r commitlog.Retention) (unfinished seq.Offset, err error) {
	if lp := hp.Led.Load(); lp != nil {
		lp.Once.Expire()
		wanted := max(lp.Part.Floor(), lp.Part.Log().Start())
		err = lp.Part.Retain(r)
		if start := lp.Part.Log().Start(); start > wanted && len(lp.Part.Channels()) > 0 {
			unfinished = start - wanted
		}
	} else if s := hp.Standby.Load(); s != nil {
		r.Floor = s.Floor()
		_, err = hp.Replica.Log().Retain(r)
	}
	return unfinished, err
}

// setWindow sets the partition's window of dedup ids to that of the metadata.
func (lp *Led) setWindow(c *meta.TopicConfig) error {
	if err := lp.Once.Set(once.Options{Partition: lp.Part, Index: lp.Index, Window: c.DedupWindow, Ages: lp.Replica.Ages(), Damaged: lp.Damaged}); err != nil {
		return fmt.Errorf("read dedup ids of partition %d: %w", lp.Index, err)
	}
	return nil
}

// offer passes messages to the term. Done receives the outcome unless an error is returned.
func (lp *Led) offer(o topic.Offered) error {
	if !topic.Identified(o.Messages) {
		return lp.Part.Offer(o)
	}
	on, err := lp.Once.Offer(o)
	if !on {
		return failure.NoWindow
	}
	return err
}

// committed handles each committed batch.
func (lp *Led) committed(b commitlog.Batch) {
	lp.Part.Committed(b)
	lp.Once.Committed()
}

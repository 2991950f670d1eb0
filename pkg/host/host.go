package host

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/internal/lane"
	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/lease"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/removal"
	"github.com/brokerd/brokerd/pkg/scrubber"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stall"
)

// shelf is what a node holds of the cluster's topics, for those who look.
type shelf struct {
	o       Options
	log     *slog.Logger
	calls   forward.Caller // to other nodes
	cluster string         // its id; set before any topic is opened

	hosted        sync.Map // topic name -> *Topic; written in the topic's lane only
	byIncarnation sync.Map // meta.Incarnation -> *Topic; likewise

	damage   damage       // damaged ranges of the logs held
	torn     atomic.Int64 // bytes cut from torn tails
	recovery atomic.Int64 // ns that opening all logs at the start took

	deleted  deletions
	overfull chan struct{} // an ephemeral topic has too much; holds one

	retiredMu sync.Mutex // guards retired
	retired   LogStats   // what deleted topics counted
}

// Host makes what the node holds what the metadata says it should.
type Host struct {
	shelf
	dirs    datadir.Dir
	topics  *lane.Lanes[string, []*lane.Outcome[struct{}]] // what is held of a topic is changed in its lane,
	parts   *lane.Lanes[heldAt, struct{}]                  // and a replica and its role in their own
	terms   *terms                                         // the led partitions that are told the time
	unsaved unsaved                                        // the replicas that a checkpoint is to look at
	isr     *proposer
	leavers leavers
	budget  *coord.Budget // of uncommitted bytes, for all terms
	credits *coord.Credits
	catchUp *replication.CatchUp // of replicas that are not in sync, by all terms
	// reporting are the partitions whose replicas here are being reported as suspect.
	reporting sync.Map // of suspectKey
	shifts    shifts   // of leaderships, for the log
	roles     roleErrors
	Stalls    *stall.Board // what does not progress
	Disk      *diskspace.Space
	Scrubber  *scrubber.Scrubber       // of the logs that are held
	waiting   atomic.Pointer[[]string] // the partitions of which a copy that was set aside waits for an operator

	ledger    *datadir.Ledger         // of the replicas made here
	removal   *removal.Remover        // of what metadata does not have any more
	redo      *redo.FS                // what this node keeps goes through it
	loops     context.CancelCauseFunc // ends the loops; nil: they have not begun
	life      context.Context         // ends when the node closes
	end       context.CancelFunc
	timers    timers
	running   fan.Group             // the node's loops and what it does in the background
	exiting   atomic.Bool           // changes are refused
	failed    atomic.Pointer[error] // why the node cannot go on
	failOnce  sync.Once
	yielding  atomic.Bool // leaderships are being handed over because the disk is full
	steady    age.Steady  // the clock of retention, of the goroutine that retains
	leaveOnce sync.Once
	strays    atomic.Int64 // directories of topics that the metadata never knew
}

// New returns a host whose data directory is opened, and that does nothing yet.
func New(o Options) (*Host, error) {
	o = o.withDefaults()
	dir, journaled, err := datadir.At(o.FS, o.DataDir).Journaled(o.Redo, o.Logger, o.Fatal)
	if err != nil {
		return nil, err
	}
	o.FS = dir.FS
	life, end := context.WithCancel(context.Background())
	dirs := datadir.At(o.FS, o.DataDir)
	n := &Host{
		redo: journaled,
		life: life, end: end, ledger: datadir.NewLedger(dirs),
		shelf: shelf{o: o, log: o.Logger, calls: o.Calls, overfull: make(chan struct{}, 1)}, dirs: dirs,
		timers: timers{wakeup: make(chan struct{}, 1)}, isr: newProposer(o.Meta.Propose),
		terms: newTerms(lease.NewContact(o.Lease, o.Meta.QuorumContact, lease.NewSuspension(lease.TimeSuspended))), unsaved: unsaved{wakeup: make(chan struct{}, 1)},
		Stalls: stall.New(o.Logger, coord.StallAfter), Disk: diskspace.New(o.FS, o.DataDir, o.DiskReserve, o.Logger), budget: coord.NewBudget(o.UncommittedBytes), credits: coord.NewCredits(o.Sizes),
		catchUp: replication.NewCatchUp(o.CatchUpRate),
	}
	n.Scrubber = scrubber.New(scrubber.Options{
		FS: o.FS, Notes: dirs.Scrubbed(), Interval: o.ScrubInterval, WallClock: o.WallClock, Logger: o.Logger, Stored: n.eachStored,
	})
	n.o.Moves.Room = hasRoom(n.Disk)
	n.removal = removal.New(removal.Options{Dirs: dirs, Ledger: n.ledger, Self: o.Self, Log: o.Logger, Go: n.running.Go})
	c := converger{n, make(lane.Places, openTogether)}
	n.topics, n.parts = lane.New(ErrExiting, c.topic), lane.New(ErrExiting, c.part)
	return n, nil
}

func (n *shelf) Lookup(name string) *Topic {
	h, ok := n.hosted.Load(name)
	if !ok {
		return nil
	}
	return h.(*Topic)
}

// Hosted returns what is hosted, sorted by name.
func (n *shelf) Hosted() []*Topic {
	var all []*Topic
	n.hosted.Range(func(_, h any) bool {
		all = append(all, h.(*Topic))
		return true
	})
	slices.SortFunc(all, func(x, y *Topic) int { return strings.Compare(x.Name, y.Name) })
	return all
}

// openReplica opens a replica of a partition, in no role yet.
func (n *Host) openReplica(h *Topic, t *meta.Topic, i int) (*Held, error) {
	state, err := quarantine{n}.look(h, t, i)
	if err != nil {
		return nil, err
	}
	replica, err := n.openLog(h, t, i)
	if err != nil {
		return nil, err
	}
	switch marked, err := (suspicion{n}).marked(h, t, i); {
	case err != nil:
		return nil, errors.Join(err, replica.Close())
	case state != intact:
	case len(replica.Recovery().Damaged) > 0:
		state = damaged
	case marked:
		state = suspected
	}
	hp := &Held{index: i, name: datadir.ReplicaName(h.Name, h.Incarnation, i), dir: n.dirs.Replica(t, i), Replica: replica}
	hp.state.Store(int32(state))
	lost, err := quarantine{n}.lossMarked(h, t, i)
	if err != nil {
		return nil, errors.Join(err, replica.Close())
	}
	hp.lost.Store(lost)
	return hp, nil
}

// openLog opens the log of a replica, in a directory that is there.
func (n *Host) openLog(h *Topic, t *meta.Topic, i int) (*coord.Replica, error) {
	lo := n.o.Log
	// Whoever replicates syncs several batches at once: then a tail of them that a
	// loss of power tore is no damage.
	lo.Alternating = t.SyncedEach() && len(t.Partitions[i].Replicas) == 1
	lo.CommittedMayBeLost = n.committedMayBeLost(t, i)
	lo.BeforeRepair = func(r commitlog.Recovery) error { return suspicion{n}.mark(h, t, i, r) }
	full := n.Disk.Brimful
	if h.fs != n.o.FS {
		full = nil // it takes nothing of the disk
		lo.SegmentBytes = min(n.o.EphemeralBytes/ephemeralSegments, ephemeralMaxSegment)
		lo.TailBytes, lo.FillBytes = -1, -1 // it is in memory as it is
		lo.Cache = nil
	}
	replica, err := coord.OpenReplica(coord.ReplicaOptions{
		FS: h.fs, Dir: n.dirs.Replica(t, i), Self: n.o.Self, Log: lo, Now: time.Now, Wall: n.o.WallClock, Full: full, Failed: n.fail,
		Partition: replication.Partition{Topic: t.Incarnation, Index: i}, Peers: n.o.Peers,
		Sizes: n.o.Sizes, Budget: n.budget, Credits: n.credits, CatchUp: n.catchUp, ReplicaLag: n.o.ReplicaLag, PublishTimeout: n.o.PublishTimeout,
		ProposeISR: func(term *coord.Term, c coord.ISRChange) {
			n.isr.ask(proposal{topic: t.Name, incarnation: t.Incarnation, partition: i, term: term, change: c})
		},
		Yield:   func(term *coord.Term, y coord.Yield) { suspicion{n}.yield(h, i, y) },
		Stirred: n.terms.stir,
		Stalled: func(follower meta.NodeID, since time.Time, why string) {
			k := stall.Key{Kind: stall.Follower, Topic: t.Name, Partition: i, Node: follower}
			if since.IsZero() {
				n.Stalls.End(k)
			} else {
				n.Stalls.Begin(k, since, why)
			}
		},
		Slow: func(follower meta.NodeID, since time.Time) {
			k := stall.Key{Kind: stall.Slow, Topic: t.Name, Partition: i, Node: follower}
			if since.IsZero() {
				n.Stalls.End(k)
			} else {
				n.Stalls.Begin(k, since, "acknowledges later than all other followers most of the time; check its network and disk")
			}
		},
		Spoiled: func(err error) {
			if hp := h.Held(i); hp != nil {
				n.reportSpoiled(t.Name, i, err)
				if err == nil {
					quarantine{n}.reportRefusing(h, hp)
				}
				n.unsaved.add(h, hp)
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
	n.reportRecovery(t.Name, i, replica.Recovery())
	return replica, nil
}

// committedMayBeLost says whether a loss of power may have taken committed records
// from this node's replica: the machine lost power, or that is not known, and the
// topic does not sync always or the replica was catching up.
func (n *shelf) committedMayBeLost(t *meta.Topic, i int) bool {
	self := n.o.Meta.Node(n.o.Self)
	if self != nil && self.BootID != "" && !self.LostPower {
		return false
	}
	return !t.Config.Sync.Always() || !slices.Contains(t.Partitions[i].ISR, n.o.Self)
}

// An ephemeral topic's log is cut into small segments, so that retention can
// drop the oldest messages in small steps.
const (
	ephemeralSegments   = 8
	ephemeralMaxSegment = 8 << 20
)

func (n *shelf) reportRecovery(name string, partition int, r commitlog.Recovery) {
	log := n.log.With("topic", name, "partition", partition)
	for _, c := range r.Cut {
		n.torn.Add(c.Bytes)
		log.Warn("unreadable log end truncated: interrupted write or corruption; "+
			"replica counts as in sync only after reconciliation with its leader",
			"path", c.Path, "position", c.Position, "bytes", c.Bytes, "log_end", c.From)
	}
	for _, d := range r.Damaged {
		n.reportDamage(name, partition, &commitlog.CorruptionError{Path: d.Path, Position: d.Position, From: d.From, Next: d.Next})
	}
}

// channelsOf returns a topic's channels in the order of their creation: the
// first of them gets the backlog.
func channelsOf(t *meta.Topic) []*meta.Channel {
	all := make([]*meta.Channel, 0, len(t.Channels))
	for _, c := range t.Channels {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *meta.Channel) int { return int(a.Version) - int(b.Version) })
	return all
}

// discard ends a topic that metadata does not have any more, and removes its data unless it may
// be restored.
func (n *Host) discard(h *Topic, s *meta.State) error {
	n.roles.forget(h)
	for _, hp := range h.AllHeld() {
		if hp != nil {
			n.retire(hp)
		}
	}
	if err := n.close(h, meta.ErrTopicNotFound); err != nil {
		n.log.Warn("cannot close deleted topic", "topic", h.Name, "error", err)
	}
	if h.fs != n.o.FS {
		return nil // it was in memory
	}
	n.damage.forget(n.dirs.Topic(h.Name, h.Incarnation))
	return n.removal.Deleted(h.Name, h.Incarnation, s)
}

// Register adds what other nodes may ask of this one about its replicas.
func (n *Host) Register(all forward.Operations) {
	forward.Register(all, forward.TransferLeader, n.Transfer)
	forward.Register(all, askLeaving, n.seeOff)
	forward.Register(all, askForget, quarantine{n}.forgetHere)
}

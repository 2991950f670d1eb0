package host

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/internal/lane"
	"github.com/brokerd/brokerd/pkg/commitlog/repair"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/datadir"
	"github.com/brokerd/brokerd/pkg/diskspace"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/lease"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/quarantine"
	"github.com/brokerd/brokerd/pkg/redo"
	"github.com/brokerd/brokerd/pkg/removal"
	"github.com/brokerd/brokerd/pkg/scrubber"
	"github.com/brokerd/brokerd/pkg/stall"
)

// Host makes the node's replicas match the metadata. Its fields are constant: callers use the
// parts that they need.
type Host struct {
	Topics     *Topics
	Converger  *Converger
	Quarantine *Quarantine
	Disk       *diskspace.Space
	Stalls     *stall.Board       // work without progress
	Scrubber   *scrubber.Scrubber // of the open logs

	o         *Options
	dirs      datadir.Dir
	ledger    *datadir.Ledger // replicas created here
	redo      *redo.FS        // journal for all files of this node
	life      *life
	removal   *removal.Remover // removes data of topics and replicas that are no longer in the metadata
	strays    atomic.Int64     // directories of topics that the metadata never knew
	damage    *repair.Known    // known damage of the open logs
	roles     *roles
	failures  *roleErrors
	handovers *handovers
	leavers   *leavers
	leaveOnce sync.Once
	terms     *terms   // led partitions that receive ticks
	unsaved   *unsaved // replicas that the next checkpoint must visit
	timers    *timers
	shifts    *shifts // of leaderships, for the log
	isr       *proposer
	loops     context.CancelCauseFunc // ends the loops; nil if they have not begun
}

// New returns a host with an open data directory and no work in progress.
func New(options Options) (*Host, error) {
	o := options.withDefaults()
	dir, journaled, found, err := datadir.At(o.FS, o.DataDir).Journaled(o.Redo, o.Logger, o.Fatal)
	if err != nil {
		return nil, err
	}
	o.FS = dir.FS
	dirs := datadir.At(o.FS, o.DataDir)
	n := &Host{
		o: &o, dirs: dirs, redo: journaled, ledger: datadir.NewLedger(dirs), life: newLife(o.Logger, o.Fatal), damage: repair.NewKnown(o.Logger),
		Stalls: stall.New(o.Logger, coord.StallAfter), Disk: diskspace.New(o.FS, o.DataDir, o.DiskReserve, o.Logger),
		terms:   newTerms(lease.NewContact(o.Lease, o.Meta.QuorumContact, lease.NewSuspension(lease.TimeSuspended))),
		unsaved: &unsaved{wakeup: make(chan struct{}, 1)}, timers: &timers{wakeup: make(chan struct{}, 1)},
		shifts: &shifts{}, failures: &roleErrors{all: map[meta.PartitionID]error{}, appends: map[meta.PartitionID]appendRefusal{}}, isr: newProposer(o.proposeObserved),
	}
	o.Moves.Room = hasRoom(n.Disk)
	n.Topics = &Topics{o: &o, damage: n.damage, overfull: make(chan struct{}, 1)}
	n.Scrubber = scrubber.New(scrubber.Options{
		FS: o.FS, Notes: dirs.Scrubbed(), Interval: o.ScrubInterval, WallClock: o.WallClock, Logger: o.Logger, Stored: n.Topics.eachStored,
	})
	n.removal = removal.New(removal.Options{Dirs: dirs, Ledger: n.ledger, Self: o.Self, Log: o.Logger, Go: n.life.running.Go})
	n.handovers = &handovers{o: &o, topics: n.Topics, converge: n.Converge, life: n.life}
	n.leavers = &leavers{o: &o, log: o.Logger, topics: n.Topics, converge: n.Converge}
	n.wireRoles()
	n.roles.onDisk.Store(found.OnDisk)
	return n, nil
}

// wireRoles creates the parts that give replicas their roles.
func (n *Host) wireRoles() {
	o := n.o
	suspects, asides := quarantine.New(quarantine.Options{
		Self: o.Self, Dirs: n.dirs, Meta: o.Meta, Log: o.Logger, Life: n.life.ctx, Go: n.life.running.Go, Propose: o.proposeObserved,
		Removal: n.removal, Live: n.Topics.log,
	})
	n.roles = &roles{
		o: o, log: o.Logger, dirs: n.dirs, life: n.life, removal: n.removal, topics: n.Topics, damage: n.damage, disk: n.Disk, stalls: n.Stalls,
		terms: n.terms, timers: n.timers, unsaved: n.unsaved, shifts: n.shifts, isr: n.isr, leavers: n.leavers, suspects: suspects,
		budget: coord.NewBudget(o.UncommittedBytes), credits: coord.NewCredits(limit.Default()), catchUp: replication.NewCatchUp(o.CatchUpRate),
	}
	n.Quarantine = &Quarantine{
		o: o, log: o.Logger, dirs: n.dirs, ledger: n.ledger, life: n.life, topics: n.Topics, damage: n.damage, suspects: suspects,
		Asides: asides,
		repairer: &repairer{
			o: o, log: o.Logger, life: n.life, topics: n.Topics, damage: n.damage, disk: n.Disk, asides: asides, dirs: n.dirs, roles: n.roles, converge: n.Converge,
			together: make(chan struct{}, repairsTogether), finding: make(chan struct{}, 1),
		},
		failures: n.failures, roles: n.roles, leaderships: n.handovers, converge: n.Converge,
	}
	n.roles.quarantine = n.Quarantine
	n.Converger = &Converger{
		o: o, log: o.Logger, dirs: n.dirs, removal: n.removal, held: n.Topics, damage: n.damage,
		stalls: n.Stalls, failures: n.failures, roles: n.roles, places: make(lane.Places, openTogether),
	}
	n.Converger.topics, n.Converger.parts = lane.New(failure.ShuttingDown, n.Converger.topic), lane.New(failure.ShuttingDown, n.Converger.part)
}

// Trash returns the number and bytes of deleted topics whose data this node keeps.
func (n *Host) Trash() (topics int, bytes int64) { return n.removal.Kept() }

// Converge makes this node's replicas of a topic match the metadata, in every partition, at least
// as of the time of the call.
func (n *Host) Converge(name string) error { return n.Converger.Converge(name) }

// Lookup returns a topic on this node, or nil.
func (n *Host) Lookup(name string) *Topic { return n.Topics.Lookup(name) }

// Handover transfers every leadership of this node to another in-sync replica that is up, if
// any. The error counts the leaderships that could have been transferred but were not.
// It is for a node that is about to stop: see Leaving.
func (n *Host) Handover(ctx context.Context) error {
	n.life.leaving.Store(true)
	return n.handovers.all(ctx)
}

// Leaving reports whether the node gives its leaderships away because it is about to stop. Its clients are to find
// another node then.
func (n *Host) Leaving() bool { return n.life.leaving.Load() || n.Exiting() }

// Transfer transfers the leadership of one partition to another replica. It does nothing if the
// target already leads it.
func (n *Host) Transfer(ctx context.Context, a forward.Transfer) (forward.Nothing, error) {
	return forward.Nothing{}, n.handovers.one(ctx, a)
}

// Register adds the operations about this node's replicas that other nodes may call.
func (n *Host) Register(all forward.Operations) {
	forward.Register(all, forward.TransferLeader, n.Transfer)
	forward.Register(all, askLeaving, n.leavers.seeOff)
	forward.Register(all, askForget, n.Quarantine.forgetHere)
	forward.Register(all, askBatches, n.Quarantine.repairer.batchesHere)
}

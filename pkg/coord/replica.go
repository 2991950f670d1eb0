package coord

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// ReplicaOptions describe a replica of a partition.
type ReplicaOptions struct {
	FS        vfs.FS
	Dir       string // of the replica
	Self      meta.NodeID
	Partition replication.Partition
	Log       commitlog.Options
	Now       func() time.Time
	// Wall returns this node's wall clock at now, in ns since 1970; nil: the system's.
	Wall func(now time.Time) int64
	// Full reports whether the disk has no room for a leader's data; nil: never. See
	// replication.Following.
	Full func() bool
	// Peers connects it to the other replicas; nil: this node is alone.
	Peers Peers
	// Failed is called when the log fails: at least once, and without waiting.
	Failed func(error)
	// DamageFound, if set, is called each time damage of the log is found, and with nil when
	// Refusing becomes true. It must not block.
	DamageFound func(error)
	// ProposeISR requests a change of the in-sync set. It must not block; the outcome is passed to
	// ISRProposed. nil: the set does not change.
	ProposeISR func(*Term, ISRChange)
	// Yield, if set, requests another replica to lead that holds records missing here. The term
	// has ended then. It is called once for a term and must not block.
	Yield func(*Term, Yield)
	// Superseded, if set, is called once for a term when another replica knows a newer epoch, which
	// ends the term.
	Superseded func(seq.Epoch)
	// Stalled is called when a follower has lacked something and received nothing for StallAfter,
	// with the time since when and a reason for people. It is called with the zero time when that
	// is over, the node no longer follows, or the term ends. It is called with a lock held and must
	// not block. May be nil.
	Stalled func(follower meta.NodeID, since time.Time, why string)
	// Slow, if set, is called when a follower has delayed all others for ReplicaLag, and with
	// the zero time when it no longer does. It must not block.
	Slow func(follower meta.NodeID, since time.Time)
	// Activated, if set, is called without a lock when an Idle term becomes active. It must not
	// block.
	Activated      func(*Term)
	Budget         *Budget              // of uncommitted bytes, shared by the node; nil: no limit
	Credits        *Credits             // of unanswered bytes, shared by the node; nil: each follower of each partition has its own
	CatchUp        *replication.CatchUp // shared by the node; nil: no limit
	Stored         func(time.Duration)  // receives how long a follower took to confirm that it has stored a request; may be nil
	Sizes          limit.Sizes          // of entries, groups and puts; zero: limit.Default
	ReplicaLag     time.Duration        // after which a follower that lags leaves; 0: DefaultReplicaLag
	PublishTimeout time.Duration        // after which an entry's outcome counts as unknown; 0: DefaultPublishTimeout
}

// Replica is one node's replica of a partition: the log, and its role: it leads, follows, or rests.
// Lead, Follow, Rest, StopLeading and Close must not run concurrently; each of them ends the
// previous role. The other methods are safe for concurrent use.
type Replica struct {
	o        ReplicaOptions
	log      *commitlog.Log
	recovery commitlog.Recovery
	follower *replication.Follower
	term     atomic.Pointer[Term]
	damaged  atomic.Bool
	ages     *age.Clock
	refusing atomic.Bool
	// unverified: the log was opened from disk and is not empty, may be an older state, and no term
	// has confirmed it since. See termOptions.
	unverified atomic.Bool
}

// OpenReplica opens the log of a replica, without a role.
func OpenReplica(o ReplicaOptions) (*Replica, error) {
	log, rec, err := commitlog.Open(o.FS, o.Dir, o.Log)
	if err != nil {
		return nil, fmt.Errorf("open replica: %w", err)
	}
	r := &Replica{o: o, log: log, recovery: rec, ages: age.NewClock(o.Wall)}
	r.damaged.Store(len(rec.Damaged) > 0)
	r.unverified.Store(log.End() > 0)
	r.follower = replication.NewFollower(log, o.Sizes.OrDefault().Put, r.failed, r.appended)
	return r, nil
}

// failed handles an error with which a follower cannot continue.
func (r *Replica) failed(err error) {
	switch {
	case errors.Is(err, replication.ErrLonger):
		if !r.refusing.Swap(true) && r.o.DamageFound != nil {
			r.o.DamageFound(nil)
		}
	case fate.Of(err) == fate.Corrupt:
		r.MarkDamaged(err)
	case r.o.Failed != nil:
		go r.o.Failed(err)
	}
}

// MarkDamaged records that part of the log cannot be read: see Damaged.
func (r *Replica) MarkDamaged(err error) {
	r.damaged.Store(true)
	if t := r.term.Load(); t != nil {
		markDamaged(t)
	}
	if r.o.DamageFound != nil {
		r.o.DamageFound(err)
	}
}

// appended records that the leader has just written a batch.
func (r *Replica) appended(b commitlog.Batch) {
	r.ages.Appended(age.Batch{First: b.First(), Epoch: b.Epoch(), Timestamp: b.Timestamp()}, time.Now())
}

// Ages returns the ages of the log's batches.
func (r *Replica) Ages() *age.Clock { return r.ages }

// Log returns the replica's log.
func (r *Replica) Log() *commitlog.Log { return r.log }

// Recovery returns the result of opening the log.
func (r *Replica) Recovery() commitlog.Recovery { return r.recovery }

// Damaged reports whether a durable part of the log cannot be read, as found when opening it or by
// a reader since; or whether the leader's log differs from what is committed here, as is possible
// after an unclean election. Such a replica must not lead while another can, and must be copied
// again.
func (r *Replica) Damaged() bool { return r.damaged.Load() }

// Refusing reports whether this replica refuses its leader because the leader's log lacks
// records committed here. This copy is not changed meanwhile. It ends with the next role, or
// once the logs agree.
func (r *Replica) Refusing() bool { return r.refusing.Load() }

// Term returns the term in which this replica leads, or nil.
func (r *Replica) Term() *Term { return r.term.Load() }

// Lead makes this replica the leader in the view's epoch, or updates the term if it already leads
// in that epoch. A term of a lower epoch is stopped. If it has led or adopted a higher epoch,
// nothing changes and the call is refused with commitlog.ErrFenced. committed is called with each
// batch once it is committed: see termOptions.
func (r *Replica) Lead(v View, committed func(commitlog.Batch)) error {
	if t := r.term.Load(); t != nil && t.Epoch() == v.Epoch {
		t.Update(v)
		return nil
	}
	if err := r.admit(v.Epoch); err != nil {
		return fmt.Errorf("start leading: %w", err)
	}
	if err := r.StopLeading(); err != nil {
		return err
	}
	r.follower.Yield(v.Epoch)
	r.refusing.Store(false)
	t, err := lead(termOptions{
		ReplicaOptions: r.o, Log: r.log, View: v, Ages: r.ages, Committed: committed, Unreadable: r.MarkDamaged,
		Unverified: r.unverified.Load() && (v.MinISR > 1 || !r.follower.Compared()),
	})
	if err != nil {
		return err
	}
	r.term.Store(t)
	if r.Damaged() {
		markDamaged(t)
	}
	return nil
}

// errCounted refuses to discard the state of a replica that is in sync, or proposed to be.
var errCounted = fate.Refuse("replica is in sync, or proposed to be")

// Forget makes the term of an epoch discard its state of another replica, whose node is about to
// empty its log, and compare logs with it again. Otherwise an idle term could propose the replica
// for the in-sync set for what it held before. When Forget returns nil, no earlier answer of the
// replica counts. Without such a term it is refused with failure.NotLeading.
func (r *Replica) Forget(e seq.Epoch, node meta.NodeID) error {
	t := r.term.Load()
	if t == nil || t.Epoch() != e {
		return fmt.Errorf("epoch %d: %w", e, failure.NotLeading)
	}
	t.mu.Lock()
	f, ok := t.members.forget(node)
	t.mu.Unlock()
	if !ok {
		return fmt.Errorf("%s: %w", node, errCounted)
	}
	if f != nil {
		watch{t, f}.renew()
	}
	return nil
}

// Follow makes this replica serve the leader of the view's epoch, and store the positions that it
// shares in p. The epoch is stored before Follow returns. An epoch below one that was led or
// adopted is refused with commitlog.ErrFenced.
func (r *Replica) Follow(v View, p replication.Positions) error {
	if err := r.admit(v.Epoch); err != nil {
		return fmt.Errorf("start following: %w", err)
	}
	stopped := r.StopLeading()
	if v.Epoch > r.follower.Epoch() {
		r.refusing.Store(false)
	}
	return errors.Join(stopped, r.follower.Adopt(replication.Following{
		Epoch: v.Epoch, Sync: v.Sync, Positions: p, Unclean: v.Unclean, Full: r.o.Full,
	}))
}

// Rest adopts the view's epoch, so that older leaders are refused, and serves no leader: the
// partition has none.
func (r *Replica) Rest(v View) error {
	if err := r.admit(v.Epoch); err != nil {
		return fmt.Errorf("stop serving: %w", err)
	}
	return errors.Join(r.StopLeading(), r.follower.Rest(v.Epoch))
}

// admit refuses an epoch below the known one.
func (r *Replica) admit(e seq.Epoch) error {
	known := r.follower.Epoch()
	if t := r.term.Load(); t != nil {
		known = max(known, t.Epoch())
	}
	if e < known {
		return fmt.Errorf("stale epoch %d, current is %d: %w", e, known, commitlog.ErrFenced)
	}
	return nil
}

// Handle handles a request of the leader without blocking. reply is called once, possibly from
// another goroutine or before Handle returns; with a refusal while this replica does not
// follow. The replica takes ownership of the payload. by is the connection, in which answers of one
// round gather; nil: they do not.
func (r *Replica) Handle(by vfs.Gatherer, kind uint8, payload []byte, reply func([]byte)) {
	if kind == replication.KindPut && r.o.CatchUp.Copying() { // otherwise no clock is read
		since, answer := r.o.Now(), reply
		reply = func(p []byte) {
			r.o.CatchUp.Committed(since, r.o.Now(), 0)
			answer(p)
		}
	}
	r.follower.Handle(by, kind, payload, reply)
}

// StopLeading stops the term if there is one: see Term.Stop.
func (r *Replica) StopLeading() error {
	t := r.term.Swap(nil)
	if t == nil {
		return nil
	}
	err := t.Stop()
	if r.log.CommittedEnd() >= t.start && verified(t) { // every in-sync replica had it
		r.unverified.Store(false)
	}
	return err
}

// Close ends the role and closes the log. Acknowledged entries are as durable as their topic
// promises; a clean close leaves nothing to recover.
func (r *Replica) Close() error {
	stopped := r.StopLeading()
	r.follower.Close()
	return errors.Join(stopped, r.log.Close())
}

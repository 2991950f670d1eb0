package coord

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// ReplicaOptions describe a replica of a partition.
type ReplicaOptions struct {
	FS        vfs.FS
	Dir       string // its own
	Self      meta.NodeID
	Partition replication.Partition
	Log       commitlog.Options
	Now       func() time.Time
	// Peers is how it reaches the others; nil: this node is alone.
	Peers Peers
	// Failed is called when the log fails: at least once, and without waiting.
	Failed func(error)
	// Spoiled is called when Damaged has become true, perhaps several times. It must
	// not block. nil: nobody is told.
	Spoiled func()
	// ProposeISR, Superseded and Stirred: see TermOptions.
	ProposeISR func(*Term, ISRChange)
	Superseded func(seq.Epoch)
	Stirred    func(*Term)
	// ReplicaLag and PublishTimeout: see TermOptions.
	ReplicaLag     time.Duration
	PublishTimeout time.Duration
}

// Replica is one node's copy of a partition: the log, and the role that this
// node has in it: it leads, follows, or rests. Lead, Follow, Rest, StopLeading and
// Close are for one goroutine at a time, and each of them ends the role before
// it; the rest is for any.
type Replica struct {
	o        ReplicaOptions
	log      *commitlog.Log
	recovery commitlog.Recovery
	follower *replication.Follower
	term     atomic.Pointer[Term]
	damaged  atomic.Bool
}

// OpenReplica opens the log of a replica. It has no role yet.
func OpenReplica(o ReplicaOptions) (*Replica, error) {
	log, rec, err := commitlog.Open(o.FS, o.Dir, o.Log)
	if err != nil {
		return nil, fmt.Errorf("open replica: %w", err)
	}
	r := &Replica{o: o, log: log, recovery: rec}
	r.damaged.Store(len(rec.Damaged) > 0)
	r.follower = replication.NewFollower(log, r.failed)
	return r, nil
}

// failed takes what a follower cannot go on with.
func (r *Replica) failed(err error) {
	switch {
	case fate.Of(err) == fate.Corrupt:
		r.damaged.Store(true)
		if r.o.Spoiled != nil {
			r.o.Spoiled()
		}
	case r.o.Failed != nil:
		go r.o.Failed(err)
	}
}

// Log returns the replica's log.
func (r *Replica) Log() *commitlog.Log { return r.log }

// Recovery tells what opening the log found.
func (r *Replica) Recovery() commitlog.Recovery { return r.recovery }

// Damaged tells whether a part of the log cannot be read that had been durable, as
// was found when the log was opened, or when it had to be compared with a leader's;
// or whether the leader's differs from what is committed here, as it may after an
// election from outside of the in-sync set. Such a replica must not lead while another can, and must be copied anew.
func (r *Replica) Damaged() bool { return r.damaged.Load() }

// Term returns the term that this replica leads; nil: it does not lead.
func (r *Replica) Term() *Term { return r.term.Load() }

// Lead makes this replica the leader at the view's epoch, or updates the term if
// it leads at that epoch already. A term of a lower epoch is stopped; where a
// higher one was led or adopted, nothing changes and the call is refused with
// commitlog.ErrFenced. committed is called with each batch once it is committed:
// see TermOptions.
func (r *Replica) Lead(v View, committed func(commitlog.Batch)) error {
	if t := r.term.Load(); t != nil && t.Epoch() == v.Epoch {
		t.Update(v)
		return nil
	}
	if err := r.admit(v.Epoch); err != nil {
		return fmt.Errorf("lead: %w", err)
	}
	if err := r.StopLeading(); err != nil {
		return err
	}
	r.follower.Yield(v.Epoch)
	t, err := Lead(TermOptions{
		Log: r.log, Partition: r.o.Partition, Self: r.o.Self, View: v, Peers: r.o.Peers,
		ReplicaLag: r.o.ReplicaLag, PublishTimeout: r.o.PublishTimeout, Now: r.o.Now,
		Committed: committed, Failed: r.o.Failed, ProposeISR: r.o.ProposeISR, Superseded: r.o.Superseded, Stirred: r.o.Stirred,
	})
	if err != nil {
		return err
	}
	r.term.Store(t)
	return nil
}

// Follow has this replica serve the leader of the view's epoch, and keep the
// positions that it shares in p. The epoch is stored before Follow returns; an
// older one than was led or adopted is refused with commitlog.ErrFenced.
func (r *Replica) Follow(v View, p replication.Positions) error {
	if err := r.admit(v.Epoch); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	stopped := r.StopLeading()
	return errors.Join(stopped, r.follower.Adopt(replication.Following{Epoch: v.Epoch, Sync: v.Sync, Positions: p}))
}

// Rest adopts the view's epoch, so that older leaders are refused, and serves
// nobody: the partition has no leader.
func (r *Replica) Rest(v View) error {
	if err := r.admit(v.Epoch); err != nil {
		return fmt.Errorf("rest: %w", err)
	}
	return errors.Join(r.StopLeading(), r.follower.Rest(v.Epoch))
}

// admit refuses an epoch below the one that is known.
func (r *Replica) admit(e seq.Epoch) error {
	known := r.follower.Epoch()
	if t := r.term.Load(); t != nil {
		known = max(known, t.Epoch())
	}
	if e < known {
		return fmt.Errorf("epoch %d, %d is known: %w", e, known, commitlog.ErrFenced)
	}
	return nil
}

// Handle takes a request of the leader's. It does not wait; reply is called once,
// perhaps from another goroutine and perhaps before Handle returns: with a refusal
// while this replica does not follow. The payload is the replica's.
func (r *Replica) Handle(kind uint8, payload []byte, reply func([]byte)) {
	r.follower.Handle(kind, payload, reply)
}

// StopLeading stops the term if there is one: see Term.Stop.
func (r *Replica) StopLeading() error {
	t := r.term.Swap(nil)
	if t == nil {
		return nil
	}
	return t.Stop()
}

// Close stops the role and closes the log. What was acknowledged is on disk as
// its topic promises; a clean close leaves nothing to recover.
func (r *Replica) Close() error {
	stopped := r.StopLeading()
	r.follower.Close()
	return errors.Join(stopped, r.log.Close())
}

package coord

import (
	"errors"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// Leadership is what metadata says of a partition that this node leads.
type Leadership struct {
	Epoch  seq.Epoch
	ISR    []meta.NodeID
	MinISR int
	Sync   meta.SyncPolicy
}

// ReplicaOptions describe a replica of a partition.
type ReplicaOptions struct {
	FS   vfs.FS
	Dir  string // its own
	Self meta.NodeID
	Log  commitlog.Options
	Now  func() time.Time
	// Failed is called once by each term whose log fails.
	Failed func(error)
}

// Replica is one node's copy of a partition: the log, and the role that this
// node has in it. It is not for concurrent use.
type Replica struct {
	o        ReplicaOptions
	log      *commitlog.Log
	recovery commitlog.Recovery
	term     *Term
}

// OpenReplica opens the log of a replica. It has no role yet.
func OpenReplica(o ReplicaOptions) (*Replica, error) {
	log, rec, err := commitlog.Open(o.FS, o.Dir, o.Log)
	if err != nil {
		return nil, fmt.Errorf("open replica: %w", err)
	}
	return &Replica{o: o, log: log, recovery: rec}, nil
}

// Log returns the replica's log.
func (r *Replica) Log() *commitlog.Log { return r.log }

// Recovery tells what opening the log found.
func (r *Replica) Recovery() commitlog.Recovery { return r.recovery }

// Term returns the term that this replica leads; nil: it does not lead.
func (r *Replica) Term() *Term { return r.term }

// Lead makes this replica the leader at an epoch. A term before it is stopped;
// one of a higher epoch is left alone, and the call refused.
// committed is called with each batch once it is committed: see TermOptions.
func (r *Replica) Lead(l Leadership, committed func(commitlog.Batch)) error {
	if r.term != nil && r.term.Epoch() == l.Epoch {
		return nil
	}
	if r.term != nil && r.term.Epoch() > l.Epoch {
		return fmt.Errorf("lead at epoch %d, leading at %d: %w", l.Epoch, r.term.Epoch(), commitlog.ErrFenced)
	}
	if err := r.StopLeading(); err != nil {
		return err
	}
	t, err := Lead(TermOptions{
		Log: r.log, Self: r.o.Self, Epoch: l.Epoch, ISR: l.ISR, MinISR: l.MinISR, Sync: l.Sync,
		Now: r.o.Now, Committed: committed, Failed: r.o.Failed,
	})
	if err != nil {
		return err
	}
	r.term = t
	return nil
}

// StopLeading stops the term if there is one: what was taken is settled and on
// disk when it returns.
func (r *Replica) StopLeading() error {
	if r.term == nil {
		return nil
	}
	t := r.term
	r.term = nil
	return t.Stop()
}

// Close stops the role and closes the log. What was acknowledged is on disk as
// its topic promises; a clean close leaves nothing to recover.
func (r *Replica) Close() error {
	return errors.Join(r.StopLeading(), r.log.Close())
}

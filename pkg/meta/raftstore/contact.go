package raftstore

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Standing is the leader's view of committed commands.
type Standing struct {
	// Index is the index of the last command that may be committed.
	Index uint64
	// Age is an upper bound of the time since a majority began to confirm that this node leads.
	Age time.Duration
}

// Ask fetches the leader's Standing for another node. Commands committed before the call minus
// Age have an index of at most Index.
type Ask func(ctx context.Context, leader meta.NodeID) (Standing, error)

// Standing returns this node's view as the leader.
func (s *Store) Standing() (Standing, error) {
	at := s.confirmed.Load()
	age := time.Duration(0)
	switch {
	case !s.IsLeader():
		return Standing{}, failure.NotController
	case alone(s.raft, s.opts.NodeID):
	case at == nil:
		return Standing{}, failure.NotController // or no majority has confirmed it yet
	default:
		age = time.Since(*at)
	}
	index, err := contacts{s}.lastCommand() // after age, so that nothing older is missing
	return Standing{index, age}, err
}

// contacts determines with which nodes a Store is in contact.
type contacts struct{ of *Store }

// lastCommand returns the index of the last command in the log, committed or not.
func (s contacts) lastCommand() (uint64, error) {
	for i := s.of.raft.LastIndex(); i > 0; i-- {
		var l raft.Log
		switch err := s.of.log.GetLog(i, &l); {
		case errors.Is(err, raft.ErrLogNotFound):
			return s.of.Applied(), nil // the snapshot, and so the state, includes it
		case err != nil:
			return 0, err
		case l.Type == raft.LogCommand:
			return i, nil
		}
	}
	return 0, nil
}

// VerifyLeader returns nil once a majority has confirmed, after the call, that this node leads.
func (s *Store) VerifyLeader(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := s.flights.request(ctx, s.raft.VerifyLeader); err != nil {
		return err
	}
	s.confirmed.advance(began)
	return nil
}

// QuorumContact returns the latest time up to which this node is known to have applied all
// committed commands; the zero time if nothing is known since it was opened. It is a monotonic
// reading and does not block: call it before every act that depends on a lease.
//
// A leader asks a majority again with every heartbeat, others ask the leader with every second one.
// Hearing from the leader would not suffice: its entries may wait for this node's disk.
func (s *Store) QuorumContact() time.Time {
	if s.IsLeader() && alone(s.raft, s.opts.NodeID) {
		return time.Now()
	}
	if at := s.contact.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// moment is a time that only increases.
type moment struct{ atomic.Pointer[time.Time] }

// advance raises it to at, unless it is already later.
func (m *moment) advance(at time.Time) {
	for {
		was := m.Load()
		if was != nil && !was.Before(at) || m.CompareAndSwap(was, &at) {
			return
		}
	}
}

// contactTimeout bounds how long a node waits for committed commands to be applied before it asks
// the leader again.
const contactTimeout = time.Second

// keep asks for the confirmation of a majority periodically while this node leads, and asks the
// leader while it does not, until Close. A leader's requests go to all nodes at one moment, and are
// its heartbeats.
func (s contacts) keep() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.of.work.Go(func() {
		defer cancel()
		select {
		case <-s.of.stop:
		case <-s.of.failed:
		}
	})
	for ctx.Err() == nil {
		moved := s.of.LeaderChanged()
		renewed := s.renew(ctx, moved)
		var pause time.Duration
		switch {
		case !renewed:
			pause = s.of.opts.LeaderLease / 10
		case s.of.IsLeader():
			pause = beat.Until(time.Now(), s.of.opts.heartbeats())
		default:
			pause = beat.Until(time.Now(), 2*s.of.opts.heartbeats())
		}
		again, due := time.NewTimer(pause), time.Now().Add(pause)
		select {
		case <-again.C:
			s.of.late.observe(time.Now(), time.Since(due))
			s.pace()
		case <-moved:
		case <-ctx.Done():
		}
		again.Stop()
	}
}

// renew determines the time up to which this node has applied everything. It gives up when the
// leader changes: what it waits for may never be committed.
func (s contacts) renew(ctx context.Context, moved <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	s.of.work.Go(func() {
		defer cancel()
		select {
		case <-moved:
		case <-ctx.Done():
		}
	})
	at, index, ok := s.askAround(ctx)
	if !ok || s.of.catchUp(ctx, index) != nil {
		return false
	}
	s.of.contact.advance(at)
	return true
}

// askAround returns a moment and the index of everything that was committed until then.
func (s contacts) askAround(ctx context.Context) (at time.Time, index uint64, ok bool) {
	at = time.Now()
	switch leader, known := s.of.Leader(); {
	case s.of.IsLeader():
		if !alone(s.of.raft, s.of.opts.NodeID) && s.of.VerifyLeader(ctx) != nil {
			return at, 0, false
		}
		index, err := s.lastCommand()
		return at, index, err == nil
	case known && leader != s.of.opts.NodeID && s.of.opts.Ask != nil:
		standing, err := s.of.opts.Ask(ctx, leader)
		return at.Add(-standing.Age), standing.Index, err == nil
	}
	return at, 0, false
}

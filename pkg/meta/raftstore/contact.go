package raftstore

import (
	"context"
	"time"
)

// VerifyLeader returns nil once a majority has confirmed, after the call, that
// this node leads.
func (s *Store) VerifyLeader(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := s.flights.request(ctx, s.raft.VerifyLeader); err != nil {
		return err
	}
	for {
		was := s.contact.Load()
		if was != nil && !was.Before(began) || s.contact.CompareAndSwap(was, &began) {
			return nil
		}
	}
}

// QuorumContact returns the latest time at which this node is known to have
// been in touch with a majority of the voters, itself or through the leader; the
// zero time: never since it was opened. It is a monotonic reading, and does not
// wait: it is meant to be asked before whatever a lease allows.
//
// A leader asks the others anew every Options.LeaderLease. Others go by
// what they hear of the leader, less the time for which it may lead without
// having noticed that it does so alone.
func (s *Store) QuorumContact() time.Time {
	switch at := s.contact.Load(); {
	case s.IsLeader() && alone(s.raft, s.opts.NodeID):
		return time.Now()
	case s.IsLeader() && at != nil:
		return *at
	case s.IsLeader():
		return time.Time{}
	}
	if at := s.raft.LastContact(); !at.IsZero() {
		return at.Add(-s.opts.LeaderLease)
	}
	return time.Time{}
}

// keepContact asks for the confirmation of a majority again and again while
// this node leads, until Close.
func (s *Store) keepContact() {
	tick := time.NewTicker(s.opts.LeaderLease)
	defer tick.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.work.Go(func() {
		defer cancel()
		select {
		case <-s.stop:
		case <-s.failed:
		}
	})
	moved := s.LeaderChanged()
	for {
		select {
		case <-tick.C:
		case <-moved: // it may have come to lead
		case <-ctx.Done():
			return
		}
		moved = s.LeaderChanged()
		if s.IsLeader() && !alone(s.raft, s.opts.NodeID) {
			_ = s.VerifyLeader(ctx) // it keeps the time, or does not
		}
	}
}

package raftstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Store is the metadata on this node. Its methods are safe for concurrent use.
type Store struct {
	local
	breakdown

	opts      Options
	raft      *raft.Raft
	guard     *guard
	log       raft.LogStore // with the latest entries in memory
	snapshots raft.SnapshotStore
	free      func() int64 // see parts
	transport *carrier
	flights   flights
	announcer announcer
	observer  *raft.Observer
	events    chan raft.Observation

	closeOnce sync.Once
	closeErr  error
	release   []func() error // closed by Close after the library has stopped
	work      sync.WaitGroup // the goroutines of this store
	stop      chan struct{}  // closed when Close begins

	moved     signal.Signal // the leader or the voters may have changed
	confirmed moment        // as the leader, by a majority
	contact   moment        // everything committed until then is applied

	late       lateness
	leaderless absence
	elections  atomic.Uint64 // for which this node stood
	changes    atomic.Uint64 // of the leader, including one after none
	last       meta.NodeID   // last known leader; used by watch
}

// Open opens or creates the metadata in o.Dir and starts Raft. The state may be behind until
// WaitLeader has returned. An error whose fate is corrupt names the damaged file; nothing on
// disk was changed.
func Open(o Options) (*Store, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	p, err := openParts(&o)
	if err != nil {
		return nil, err
	}
	return openWith(o, p)
}

func openWith(o Options, p *parts) (*Store, error) {
	s := &Store{
		opts: o, events: make(chan raft.Observation, observerBuffer), stop: make(chan struct{}),
		local: local{newMachine(o.remembered())}, breakdown: breakdown{failed: make(chan struct{})},
	}
	s.flights.failed, s.flights.over = s.failed, make(chan struct{})
	s.machine.onFail = s.fail
	s.guard = &guard{storage: p.log, reserve: p.reserve, onFail: s.fail, late: &s.late}
	s.leaderless.observe(false, time.Now())
	s.snapshots, s.free = p.snapshots, p.free
	s.transport = openCarrier(&o, s.guard, s.stop)
	s.announcer = announcer{make(chan struct{}, 1)}
	s.machine.onApply = s.announcer.applied
	s.release = []func() error{s.transport.close, p.close}
	if err := s.start(p, s.transport); err != nil {
		return nil, errors.Join(err, s.transport.close(), p.close())
	}
	return s, nil
}

func (s *Store) start(p *parts, transport *carrier) error {
	if err := bootstrap(&s.opts, p, s.guard, transport.Transport); err != nil {
		return err
	}
	if p.made && !s.opts.InMemory {
		if err := writeIdentity(s.opts.Dir, s.opts.NodeID); err != nil {
			return err
		}
	}
	cache, err := raft.NewLogCache(logCacheEntries, s.guard)
	if err != nil {
		return err
	}
	s.log = cache
	r, err := raft.NewRaft(s.opts.raftConfig(), s.machine, cache, s.guard, p.snapshots, transport.Transport) // it looks for further methods
	if err != nil {
		return fmt.Errorf("start metadata: %w", err)
	}
	s.raft = r
	transport.started(r)
	s.arm(sync.OnceValue(r.Shutdown))
	s.observer = raft.NewObserver(s.events, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		}
		return false
	})
	r.RegisterObserver(s.observer)
	s.work.Go(s.watch)
	if s.opts.distributed() {
		s.work.Go(contacts{s}.keep)
		s.work.Go(func() { s.announcer.keep(s) })
	}
	if !p.made && !s.opts.InMemory {
		s.work.Go(s.identify)
	}
	if !s.opts.InMemory {
		s.work.Go(ledger{s}.keep)
	}
	if alone(r, s.opts.NodeID) {
		s.work.Go(func() { _ = elect(transport.Transport, s.opts.NodeID) })
	}
	return nil
}

// identify records that the store exists, once it has received its first state from the cluster
// that this node joined.
func (s *Store) identify() {
	for {
		changed := s.Changed()
		if s.Applied() > 0 {
			if err := writeIdentity(s.opts.Dir, s.opts.NodeID); err != nil {
				s.fail(err)
			}
			return
		}
		select {
		case <-changed:
		case <-s.failed:
			return
		case <-s.stop:
			return
		}
	}
}

// alone reports whether node is the only voter.
func alone(r *raft.Raft, node meta.NodeID) bool {
	voters, self := 0, false
	for _, v := range r.GetConfiguration().Configuration().Servers {
		if v.Suffrage == raft.Voter {
			voters++
			self = self || v.ID == raft.ServerID(node)
		}
	}
	return voters == 1 && self
}

// elect makes the only voter request votes at once, instead of waiting for the heartbeat of a
// leader that cannot exist. It sends itself the message with which a leader transfers its
// leadership. If that fails, the timeout has the same effect.
func elect(t raft.Transport, node meta.NodeID) error {
	id := raft.ServerID(node)
	addr := t.LocalAddr()
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: t.EncodePeer(id, addr)}
	return t.TimeoutNow(id, addr, &raft.TimeoutNowRequest{RPCHeader: header}, &raft.TimeoutNowResponse{})
}

// watch converts the library's observations into the signal that WaitLeader waits for, until Close.
func (s *Store) watch() {
	for {
		select {
		case o := <-s.events:
			if o.Data == raft.Candidate {
				s.elections.Add(1)
			}
			s.moved.Fire()
			contacts{s}.observeLeader()
			contacts{s}.pace()
			if s.raft.State() == raft.Shutdown {
				s.fail(failure.Removed) // without effect if the store was stopped
			}
		case <-s.stop:
			return
		}
	}
}

// IsLeader reports whether this node is the metadata leader, to its knowledge.
func (s *Store) IsLeader() bool { return s.raft.State() == raft.Leader }

// Leader returns the metadata leader, to this node's knowledge.
func (s *Store) Leader() (meta.NodeID, bool) {
	_, id := s.raft.LeaderWithID()
	return meta.NodeID(id), id != ""
}

// LeaderChanged returns a channel that is closed when the leader may have changed. Get it before
// asking for the leader, so that no change is missed.
func (s *Store) LeaderChanged() <-chan struct{} { return s.moved.Wait() }

// WaitLeader returns once a leader is known. On the leader itself it returns once everything
// committed before is applied.
func (s *Store) WaitLeader(ctx context.Context) error {
	for {
		moved := s.LeaderChanged()
		if s.IsLeader() {
			err := s.Barrier(ctx)
			if !errors.Is(err, failure.NotController) && !errors.Is(err, failure.CommandUnknown) || ctx.Err() != nil {
				return err
			}
		} else if id, ok := s.Leader(); ok && id != s.opts.NodeID {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.failed:
			return s.Err()
		case <-s.stop:
			return failure.MetadataClosed
		}
	}
}

// Barrier returns once everything proposed before it is applied here. Only the leader can call it.
func (s *Store) Barrier(ctx context.Context) error {
	return s.flights.request(ctx, func() raft.Future { return s.raft.Barrier(s.opts.ApplyTimeout) })
}

// Init gives the cluster an id if it has none, and returns the id. Only the leader can assign one.
func (s *Store) Init(ctx context.Context) (string, error) {
	if id := clusterID(s); id != "" {
		return id, nil
	}
	if _, err := s.Propose(ctx, meta.InitCluster{ID: rand.Text(), Level: level.Supported().Max}); err != nil {
		return "", err
	}
	return clusterID(s), nil
}

func clusterID(s *Store) (id string) {
	s.Read(func(m *meta.State) { id = m.Cluster().ID })
	return id
}

// Snapshot writes the state to disk now, unless nothing has changed since the last one.
func (s *Store) Snapshot() error {
	err := s.raft.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// Close leaves the Raft group and returns when everything has stopped. It may be called again. It
// waits briefly for commands in progress; those that are not decided then get failure.CommandUnknown.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.stop)
		s.flights.close(drainTimeout)
		err := s.shutdown().Error()
		close(s.flights.over)
		s.raft.DeregisterObserver(s.observer)
		s.work.Wait()
		errs := []error{err}
		for _, release := range s.release {
			errs = append(errs, release())
		}
		s.closeErr = errors.Join(errs...)
	})
	return s.closeErr
}

package raftstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/meta"
)

// Store is the metadata on this node. Its methods may be called by many
// goroutines.
type Store struct {
	opts     Options
	raft     *raft.Raft
	machine  *machine
	guard    *guard
	observer *raft.Observer
	events   chan raft.Observation

	closeOnce sync.Once
	closeErr  error
	release   []func() error // what Close closes after the library is still
	work      sync.WaitGroup // the goroutines of this store
	stop      chan struct{}  // closed when Close begins

	mu       sync.Mutex         // guards the fields below
	shutdown func() raft.Future // tells the library to stop; always the same future
	err      error              // why the store failed
	failed   chan struct{}      // closed when err is set
	moved    chan struct{}      // closed, and replaced, when the leader may be another
}

// Open opens the metadata in o.Dir, or makes it, and starts the agreement. The
// state may be behind until WaitLeader has returned. An error whose fate is
// corrupt names the file that is damaged; nothing on disk was changed then.
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
	transport, closeTransport := openTransport(&o)
	s := &Store{
		opts: o, events: make(chan raft.Observation, observerBuffer), stop: make(chan struct{}),
		failed: make(chan struct{}), moved: make(chan struct{}),
		release: []func() error{closeTransport, p.close},
	}
	s.machine = newMachine(s.fail)
	s.guard = &guard{storage: p.log, reserve: p.reserve, onFail: s.fail}
	if err := s.start(p, transport); err != nil {
		return nil, errors.Join(err, closeTransport(), p.close())
	}
	return s, nil
}

func (s *Store) start(p *parts, transport raft.Transport) error {
	if err := bootstrap(&s.opts, p, transport); err != nil {
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
	r, err := raft.NewRaft(s.opts.raftConfig(), s.machine, cache, s.guard, p.snapshots, transport)
	if err != nil {
		return fmt.Errorf("start metadata: %w", err)
	}
	s.raft = r
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
	if alone(r, s.opts.NodeID) {
		s.work.Go(func() { elect(transport, s.opts.NodeID) })
	}
	return nil
}

// alone says whether node is the only voter.
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

// elect lets the only voter ask for votes at once, where it would otherwise
// first wait for the heartbeat of a leader that cannot be. It is what a leader
// that hands over sends to its successor. Without success the timeout does it.
func elect(t raft.Transport, node meta.NodeID) {
	id := raft.ServerID(node)
	addr := t.LocalAddr()
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(id), Addr: t.EncodePeer(id, addr)}
	_ = t.TimeoutNow(id, addr, &raft.TimeoutNowRequest{RPCHeader: header}, &raft.TimeoutNowResponse{})
}

// watch turns the library's observations into the signal that WaitLeader waits
// for, until Close.
func (s *Store) watch() {
	for {
		select {
		case <-s.events:
			s.mu.Lock()
			close(s.moved)
			s.moved = make(chan struct{})
			s.mu.Unlock()
		case <-s.stop:
			return
		}
	}
}

// fail ends the store: what it was about to do cannot be done, and the
// library's own way out of some of that is a panic. The first cause stays.
func (s *Store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = err
	close(s.failed)
	if s.shutdown != nil {
		s.shutdown() // returns at once; Close waits
	}
}

// arm lets fail stop the library, and does so if it was called before.
func (s *Store) arm(shutdown func() raft.Future) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shutdown = shutdown
	if s.err != nil {
		s.shutdown()
	}
}

// Failed is closed when the store can no longer take part: a write to its disk
// failed, or it met a command that this program does not know. Err says which.
// The node should hand over and stop.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err returns why the store failed; nil: it did not.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Propose has a command agreed on and applied, on this node too, and returns
// what became of it. Only the leader can: others answer ErrNotLeader. A command
// that the state refuses returns the sentinel of package meta. Commands of
// several goroutines share their disk writes.
//
// An error whose fate is refused means that nothing was changed. Otherwise it
// wraps ErrUnknownOutcome: the command may have been applied, or may still be.
func (s *Store) Propose(ctx context.Context, c meta.Command) (meta.Result, error) {
	if err := c.Validate(); err != nil {
		return meta.Result{}, err
	}
	data, err := meta.EncodeCommand(c)
	if err != nil {
		return meta.Result{}, err
	}
	if err := s.ready(ctx); err != nil {
		return meta.Result{}, err
	}
	f := s.raft.Apply(data, s.opts.ApplyTimeout)
	if err := await(ctx, f); err != nil {
		if cause := s.Err(); cause != nil {
			err = fmt.Errorf("%w: %w", err, cause)
		}
		return meta.Result{}, err
	}
	switch r := f.Response().(type) {
	case meta.Result:
		return r, r.Err
	case error:
		return meta.Result{}, fmt.Errorf("%w: %w", ErrUnknownOutcome, r)
	}
	return meta.Result{}, ErrUnknownOutcome
}

// ready says why a command cannot be taken in now.
func (s *Store) ready(ctx context.Context) error {
	if err := s.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	select {
	case <-s.stop:
		return ErrClosed
	default:
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errNotProposed, context.Cause(ctx))
	}
	if !s.guard.reserve.restore(time.Now()) {
		return ErrDiskFull
	}
	if s.raft.State() != raft.Leader {
		return ErrNotLeader
	}
	return nil
}

// await waits for a future, or for the caller to give up. The library has no
// future that can be given up, so a goroutine stays behind until it is decided,
// at the latest when the store is closed.
func await(ctx context.Context, f raft.Future) error {
	if ctx.Done() == nil {
		return proposeError(f.Error())
	}
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return proposeError(err)
	case <-ctx.Done():
		return givenUp(ctx)
	}
}

// Read calls f with the state, which does not change meanwhile. f must be short
// and must not call the store. What it takes from the state stays valid.
func (s *Store) Read(f func(*meta.State)) { s.machine.read(f) }

// View returns the state as it is now, to be kept and read at leisure.
func (s *Store) View() (v *meta.State) {
	s.Read(func(m *meta.State) { v = m.Snapshot() })
	return v
}

// Topic returns a topic as this node knows it, or nil.
func (s *Store) Topic(name string) (t *meta.Topic) {
	s.Read(func(m *meta.State) { t = m.Topic(name) })
	return t
}

// Topics returns all topics, sorted by name. The slice is the caller's.
func (s *Store) Topics() (all []*meta.Topic) {
	s.Read(func(m *meta.State) {
		all = make([]*meta.Topic, 0, m.TopicCount())
		for t := range m.Topics() {
			all = append(all, t)
		}
	})
	return all
}

// Node returns a node as this node knows it, or nil.
func (s *Store) Node(id meta.NodeID) (n *meta.Node) {
	s.Read(func(m *meta.State) { n = m.Node(id) })
	return n
}

// Nodes returns all nodes, sorted by id. The slice is the caller's.
func (s *Store) Nodes() (all []*meta.Node) {
	s.Read(func(m *meta.State) {
		all = make([]*meta.Node, 0, m.NodeCount())
		for n := range m.Nodes() {
			all = append(all, n)
		}
	})
	return all
}

// Settings returns the cluster-wide settings as this node knows them.
func (s *Store) Settings() (v meta.Settings) {
	s.Read(func(m *meta.State) { v = m.Settings() })
	return v
}

// Applied returns the index of the last command in the state.
func (s *Store) Applied() (index uint64) {
	s.Read(func(m *meta.State) { index = m.Index() })
	return index
}

// Changed returns a channel that is closed when the state has changed. Take it
// first and read then, and no change is missed.
func (s *Store) Changed() <-chan struct{} { return s.machine.wait() }

// IsLeader says whether this node leads the metadata, as far as it knows.
func (s *Store) IsLeader() bool { return s.raft.State() == raft.Leader }

// Leader returns the node that leads the metadata, as far as this one knows.
func (s *Store) Leader() (meta.NodeID, bool) {
	_, id := s.raft.LeaderWithID()
	return meta.NodeID(id), id != ""
}

// WaitLeader returns once a leader is known. On the leader itself it returns
// once everything agreed on before is applied.
func (s *Store) WaitLeader(ctx context.Context) error {
	for {
		s.mu.Lock()
		moved := s.moved
		s.mu.Unlock()
		if s.IsLeader() {
			err := s.Barrier(ctx)
			if !errors.Is(err, ErrNotLeader) && !errors.Is(err, ErrUnknownOutcome) || ctx.Err() != nil {
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
			return ErrClosed
		}
	}
}

// Barrier returns once everything that was proposed before it is applied here.
// Only the leader can.
func (s *Store) Barrier(ctx context.Context) error {
	return await(ctx, s.raft.Barrier(s.opts.ApplyTimeout))
}

// Init gives the cluster an id where it has none, and returns the id. Only the
// leader can give one.
func (s *Store) Init(ctx context.Context) (string, error) {
	if id := clusterID(s); id != "" {
		return id, nil
	}
	if _, err := s.Propose(ctx, meta.InitCluster{ID: rand.Text()}); err != nil {
		return "", err
	}
	return clusterID(s), nil
}

func clusterID(s *Store) (id string) {
	s.Read(func(m *meta.State) { id = m.Cluster().ID })
	return id
}

// Snapshot writes the state to disk now. With nothing new since the last one it
// does nothing.
func (s *Store) Snapshot() error {
	err := s.raft.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	return err
}

// Close stops taking part and returns when all is still. It may be called
// again. Commands under way get ErrUnknownOutcome.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.stop)
		err := s.shutdown().Error()
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

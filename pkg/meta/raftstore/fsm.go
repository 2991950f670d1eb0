package raftstore

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
)

// machine applies committed commands to the state. The consensus library calls it from one
// goroutine.
type machine struct {
	mu      sync.RWMutex // guards state, changed, recent
	state   *meta.State
	changed chan struct{}
	recent  []meta.Result // of the last commands, by index modulo length; nil: not kept

	access  atomic.Pointer[access.Directory] // of state: checked for each publish, without the lock
	failed  atomic.Pointer[error]            // why nothing is applied any longer
	onFail  func(error)
	onApply func() // more is committed; must not block
	applied timing
}

func newMachine(remembered int) *machine {
	return &machine{
		state: &meta.State{}, changed: make(chan struct{}), recent: make([]meta.Result, remembered),
		onFail: func(error) {}, onApply: func() {},
	}
}

// decoded is a log entry ready to be applied, or the reason why it cannot be.
type decoded struct {
	index uint64
	at    int64 // when it was proposed, ns since 1970; 0: unknown
	cmd   meta.Command
	err   error
}

// Apply implements raft.FSM.
func (m *machine) Apply(l *raft.Log) any { return m.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch implements raft.BatchingFSM: one lock and one signal for many
// commands.
func (m *machine) ApplyBatch(logs []*raft.Log) []any {
	start := time.Now()
	m.onApply()
	out := make([]any, len(logs))
	batch := make([]decoded, len(logs))
	for i, l := range logs {
		batch[i].index = l.Index
		if l.Type == raft.LogCommand {
			batch[i].cmd, batch[i].err = meta.DecodeCommand(l.Data)
			batch[i].at = meta.CommandTime(l.Data)
		}
	}
	if err := m.applyAll(batch, out); err != nil {
		m.fail(err)
	}
	m.applied.add(time.Since(start))
	return out
}

// fail stops applying.
func (m *machine) fail(err error) {
	m.failed.Store(&err)
	m.onFail(err)
}

func (m *machine) applyAll(batch []decoded, out []any) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	failed := m.failed.Load()
	var stop error
	for i, d := range batch {
		switch {
		case d.cmd == nil && d.err == nil: // a change of the members
		case failed != nil:
			out[i] = *failed
		case d.err != nil:
			// Nodes that know this command apply it, so this node must not continue without it.
			stop = fmt.Errorf("metadata command %d: %w", d.index, d.err)
			failed = &stop
			out[i] = stop
		default:
			r := meta.ApplyAt(m.state, d.index, d.at, d.cmd)
			if len(m.recent) > 0 {
				m.recent[d.index%uint64(len(m.recent))] = r
			}
			out[i] = r
			// Later entries may be unknown here, and would be misunderstood.
			if err := meta.CheckLevel(m.state, level.Supported()); err != nil {
				stop = fmt.Errorf("metadata command %d: %w", d.index, err)
				failed = &stop
			}
		}
	}
	m.tellLocked()
	return stop
}

// Snapshot implements raft.FSM.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	if failed := m.failed.Load(); failed != nil {
		return nil, *failed
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return image{m.state.Snapshot()}, nil
}

// Restore implements raft.FSM.
func (m *machine) Restore(r io.ReadCloser) error {
	defer r.Close()
	s, err := meta.DecodeSnapshot(r)
	if errors.Is(err, failure.FeatureLevel) || errors.Is(err, meta.ErrUnknownSnapshot) {
		m.fail(fmt.Errorf("metadata snapshot of the leader: %w", err)) // it would be sent repeatedly
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = s
	clear(m.recent)
	m.tellLocked()
	return nil
}

// tellLocked signals a changed state. mu is held.
func (m *machine) tellLocked() {
	m.access.Store(meta.AccessOf(m.state))
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *machine) read(f func(*meta.State)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f(m.state)
}

func (m *machine) wait() <-chan struct{} {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.changed
}

// image is a state being written to a snapshot.
type image struct{ state *meta.State }

// Persist implements raft.FSMSnapshot.
func (i image) Persist(sink raft.SnapshotSink) error {
	if err := i.state.Encode(sink); err != nil {
		return fmt.Errorf("write snapshot: %w", errors.Join(err, sink.Cancel()))
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (image) Release() {}

// timing counts how often something was done and how long it took.
type timing struct {
	count atomic.Uint64
	total atomic.Int64 // ns
}

func (t *timing) add(d time.Duration) {
	t.count.Add(1)
	t.total.Add(int64(d))
}

func (t *timing) stats() Timing {
	return Timing{Count: t.count.Load(), Total: time.Duration(t.total.Load())}
}

// Timing counts how often something was done, with its total duration.
type Timing struct {
	Count uint64
	Total time.Duration
}

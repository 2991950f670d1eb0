package limit

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
)

// MemoryWait is how long a Take waits for others to give back before it is refused.
const MemoryWait = time.Second

// SmallShare is up to how many bytes a Share counts as small: what a client of an
// ordinary size holds. Small shares may fill the whole budget, bigger ones leave a
// quarter of it to them.
const SmallShare = 64 << 10

// Use says what memory is taken for.
type Use uint8

// The uses. Each but that of bodies may have a part of the budget only, so that none
// keeps the others from theirs for long: a connection may stay for ever, a body goes.
const (
	Bodies      Use = iota // bodies that are being read or published, and what decoding them takes
	Answers                // answers over HTTP, and messages that are looked at
	Forwards               // publishes on their way to another node, or waiting for a leader
	Ephemeral              // messages of ephemeral topics
	Reads                  // what was read of logs out of order, kept for who wants more of it
	Connections            // connections as such, their TLS and their compression
	Deliveries             // messages that are being written to clients
	ReadAhead              // what was read ahead of logs, for consumers that lag
	Batches                // large batches of logs, while messages are taken of them
	// UseCount is the number of uses, for tables.
	UseCount
)

var uses = [UseCount]struct {
	name    string
	eighths int64 // of the budget that the use may have
}{
	Bodies: {"bodies", 8}, Answers: {"answers", 4}, Forwards: {"forwards", 4},
	Ephemeral: {"ephemeral", 2}, Reads: {"reads", 2}, Connections: {"connections", 4},
	Deliveries: {"deliveries", 4}, ReadAhead: {"read_ahead", 1}, Batches: {"batches", 2},
}

// bulkEighths is what shares that are not small may bring the whole budget to.
const bulkEighths = 6

// String returns the name that metrics have for it.
func (u Use) String() string { return uses[u].name }

// Memory is a budget of the bytes that clients can make a node hold, whatever for.
// What is to be held is taken before it is allocated, and given back when it is no
// longer needed; who finds no room waits in order, for at most MemoryWait, and is
// refused. It counts what is held and not what the garbage collector has yet to
// free. Its methods are safe for concurrent use; a nil one has no limit.
type Memory struct {
	limit int64

	mu    sync.Mutex // guards what follows
	state MemoryUsage
	lines [2 * UseCount]line
	waits []func() // see OnWait
}

// line is the claims of one use and size that wait, in order.
type line []*claim

// MemoryUsage is how a budget is used.
type MemoryUsage struct {
	Limit, Used int64           // bytes
	Uses        [UseCount]int64 // what Used is made of
	Waiting     int             // takes that wait now
	Waited      uint64          // takes that had to wait
	Refused     uint64          // takes that were refused
}

// claim is a Take that waits.
type claim struct {
	use     Use
	n       int64
	granted chan struct{}
}

// NewMemory returns a budget of so many bytes.
func NewMemory(bytes int64) *Memory {
	return &Memory{limit: bytes, state: MemoryUsage{Limit: bytes}}
}

// Usage returns how the budget is used.
func (m *Memory) Usage() MemoryUsage {
	if m == nil {
		return MemoryUsage{Limit: math.MaxInt64}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.state
	u.Waiting = m.waitingLocked()
	return u
}

// Pressed reports whether someone waits for memory.
func (m *Memory) Pressed() bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waitingLocked() > 0
}

func (m *Memory) waitingLocked() (n int) {
	for _, l := range m.lines {
		n += len(l)
	}
	return n
}

// OnWait has f called whenever there is no room for a use other than Reads: it gives
// back what is held only to be quicker. It must not take memory.
func (m *Memory) OnWait(f func()) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waits = append(m.waits, f)
}

// Share returns an empty share of the budget.
func (m *Memory) Share(use Use) Share { return Share{of: m, use: use} }

// possible reports whether n bytes may be taken when nothing else is.
func (m *Memory) possible(use Use, n int64, small bool) bool {
	return n <= m.limit/8*uses[use].eighths && (small || n <= m.limit/8*bulkEighths)
}

// fitsLocked reports whether n more bytes may be taken now.
func (m *Memory) fitsLocked(use Use, n int64, small bool) bool {
	if small {
		return m.state.Used+n <= m.limit && m.state.Uses[use]+n <= m.limit/8*uses[use].eighths
	}
	return m.state.Used+n <= m.limit/8*bulkEighths && m.state.Uses[use]+n <= m.limit/8*uses[use].eighths
}

func (m *Memory) addLocked(use Use, n int64) {
	m.state.Used += n
	m.state.Uses[use] += n
}

// try takes n bytes if there is room and nobody of the same size waits.
func (m *Memory) try(use Use, n int64, small bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(*m.lineLocked(use, small)) > 0 || !m.fitsLocked(use, n, small) {
		return false
	}
	m.addLocked(use, n)
	return true
}

func (m *Memory) lineLocked(use Use, small bool) *line {
	if small {
		return &m.lines[use]
	}
	return &m.lines[UseCount+use]
}

// reserve waits for n bytes.
func (m *Memory) reserve(ctx context.Context, use Use, n int64, small bool) error {
	if m.try(use, n, small) {
		return nil
	}
	c := &claim{use: use, n: n, granted: make(chan struct{})}
	m.mu.Lock()
	if !m.possible(use, n, small) { // there never is room, and others would wait behind it
		m.state.Refused++
		m.mu.Unlock()
		return failure.NoMemory
	}
	l := m.lineLocked(use, small)
	*l = append(*l, c)
	m.state.Waited++
	m.grantLocked() // something may have been given back since
	m.mu.Unlock()
	m.reclaim()
	timer := time.NewTimer(MemoryWait)
	defer timer.Stop()
	select {
	case <-c.granted:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return m.withdraw(c, small)
}

// reclaim has all given back that is held only to be quicker.
func (m *Memory) reclaim() {
	m.mu.Lock()
	waits := m.waits
	m.mu.Unlock()
	for _, f := range waits {
		f()
	}
}

// withdraw ends the waiting of a claim, unless it was granted at the last moment.
func (m *Memory) withdraw(c *claim, small bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lineLocked(c.use, small)
	for i, other := range *l {
		if other == c {
			*l = append((*l)[:i:i], (*l)[i+1:]...)
			m.state.Refused++
			m.grantLocked() // those behind it may want less
			return failure.NoMemory
		}
	}
	return nil
}

func (m *Memory) give(use Use, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addLocked(use, -n)
	m.grantLocked()
}

// grantLocked serves those who wait: the small ones first, each line in its order.
func (m *Memory) grantLocked() {
	for i := range m.lines {
		l, small := &m.lines[i], i < int(UseCount)
		for len(*l) > 0 && m.fitsLocked((*l)[0].use, (*l)[0].n, small) {
			c := (*l)[0]
			*l = (*l)[1:]
			m.addLocked(c.use, c.n)
			close(c.granted)
		}
		if len(*l) == 0 {
			*l = nil
		}
	}
}

// Share is what one owner has of a Memory: a connection, a request, a topic. It is
// for one goroutine at a time, and is moved, not copied. The zero value has no limit.
type Share struct {
	of   *Memory
	use  Use
	held int64
}

// Held returns the bytes that the share has.
func (s *Share) Held() int { return int(s.held) }

// Most returns how many bytes the share could have if nobody else had any.
func (s *Share) Most() int {
	if s.of == nil {
		return math.MaxInt
	}
	return int(s.of.limit / 8 * min(uses[s.use].eighths, bulkEighths))
}

// Reserve takes n bytes more. It waits while there is no room, until ctx ends but not
// for longer than MemoryWait, and then returns failure.NoMemory.
func (s *Share) Reserve(ctx context.Context, n int) error {
	if s.of != nil && n > 0 {
		if err := s.of.reserve(ctx, s.use, int64(n), s.small(n)); err != nil {
			return err
		}
	}
	s.held += int64(n)
	return nil
}

// Try takes n bytes more, or reports that there is no room now.
func (s *Share) Try(n int) bool {
	if s.of == nil || n <= 0 || s.of.try(s.use, int64(n), s.small(n)) {
		s.held += int64(n)
		return true
	}
	if s.use == Reads {
		return false
	}
	s.of.reclaim()
	if !s.of.try(s.use, int64(n), s.small(n)) {
		return false
	}
	s.held += int64(n)
	return true
}

// Refuse counts that something was refused because a Try had failed, and returns
// failure.NoMemory.
func (s *Share) Refuse() error {
	if s.of != nil {
		s.of.mu.Lock()
		s.of.state.Refused++
		s.of.mu.Unlock()
	}
	return failure.NoMemory
}

// small reports whether the share is small with n bytes more.
func (s *Share) small(n int) bool { return s.held+int64(n) <= SmallShare }

// Give gives back n bytes, at most what the share has.
func (s *Share) Give(n int) {
	given := min(int64(n), s.held)
	if given <= 0 {
		return
	}
	s.held -= given
	if s.of != nil {
		s.of.give(s.use, given)
	}
}

// Close gives back all that the share has. It may be used again.
func (s *Share) Close() { s.Give(int(s.held)) }

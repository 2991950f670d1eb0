package limit

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
)

// MemoryWait is how long a Reserve waits for memory before it is refused.
const MemoryWait = time.Second

// SmallShare is the size up to which a Share counts as small: the memory of an ordinary client.
// Small shares may use the whole budget; larger ones leave a quarter of it to them.
const SmallShare = 64 << 10

// Use is the purpose for which memory is reserved.
type Use uint8

// The uses. Each except Bodies may use only a part of the budget, so that none blocks the others
// for long: a connection may stay forever, a body does not.
const (
	Bodies      Use = iota // bodies being read or published, and the memory to decode them
	Answers                // responses over HTTP, and messages being inspected
	Forwards               // publishes sent to another node, or waiting for a leader
	Ephemeral              // messages of ephemeral topics
	Reads                  // log data read out of order, cached for other readers
	Connections            // connections with their TLS and compression
	Deliveries             // messages being written to clients
	ReadAhead              // log data read ahead for consumers that lag
	Batches                // large batches of logs, while messages are read from them
	Relays                 // messages that other nodes have sent for clients here
	Partitions             // open partitions; see Occupy
	// UseCount is the number of uses, for tables.
	UseCount
)

var uses = [UseCount]struct {
	name    string
	eighths int64 // maximum part of the budget for the use
}{
	Bodies: {"bodies", 8}, Answers: {"answers", 4}, Forwards: {"forwards", 4},
	Ephemeral: {"ephemeral", 2}, Reads: {"reads", 2}, Connections: {"connections", 4},
	Deliveries: {"deliveries", 4}, ReadAhead: {"read_ahead", 1}, Batches: {"batches", 2},
	Relays: {"relays", 2}, Partitions: {"partitions", 4},
}

// bulkEighths is the part of the budget up to which shares that are not small may fill it.
const bulkEighths = 6

// String returns the name of the use in metrics.
func (u Use) String() string { return uses[u].name }

// Memory is a budget for all memory that clients can make a node hold. Memory is reserved before
// it is allocated, and returned when it is no longer needed. If there is none, the caller waits in
// order, for at most MemoryWait, and is then refused. The budget counts memory in use, not garbage
// that has not been collected yet. Its methods are safe for concurrent use; a nil Memory has no
// limit.
type Memory struct {
	limit int64

	mu    sync.Mutex // guards the fields below
	state MemoryUsage
	lines [2 * UseCount]line
	waits []func() // see OnWait
}

// line holds the waiting claims of one use and size, in order.
type line []*claim

// MemoryUsage describes the use of a budget.
type MemoryUsage struct {
	Limit, Used int64           // bytes
	Uses        [UseCount]int64 // Used by purpose
	Waiting     int             // claims waiting now
	Waited      uint64          // claims that had to wait
	Refused     uint64          // claims that were refused
}

// claim is a Reserve that waits.
type claim struct {
	use     Use
	n       int64
	granted chan struct{}
}

// NewMemory returns a budget of a number of bytes.
func NewMemory(bytes int64) *Memory {
	return &Memory{limit: bytes, state: MemoryUsage{Limit: bytes}}
}

// Usage returns the use of the budget.
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

// Pressed reports whether a claim waits for memory.
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

// OnWait registers f, which is called when there is no memory for a use other than Reads: it
// releases memory used only for speed. It must not reserve memory.
func (m *Memory) OnWait(f func()) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waits = append(m.waits, f)
}

// PartitionCost is what an open partition counts for, in bytes: an idle one of a topic takes 11 KiB, and each topic some.
const PartitionCost = 16 << 10

// MostPartitions returns how many open partitions a budget of a number of bytes has room for.
func MostPartitions(budget int64) int {
	return int(budget / 8 * uses[Partitions].eighths / PartitionCost)
}

// Occupy sets how many partitions are open. They are there whether they fit or not: what exceeds their part of the budget
// is not counted, so that clients can go on.
func (m *Memory) Occupy(partitions int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := min(int64(partitions)*PartitionCost, m.limit/8*uses[Partitions].eighths)
	m.addLocked(Partitions, n-m.state.Uses[Partitions])
	m.grantLocked()
}

// Share returns an empty share of the budget.
func (m *Memory) Share(use Use) Share { return Share{of: m, use: use} }

// possible reports whether n bytes could be reserved if nothing else were.
func (m *Memory) possible(use Use, n int64, small bool) bool {
	return n <= m.limit/8*uses[use].eighths && (small || n <= m.limit/8*bulkEighths)
}

// fitsLocked reports whether n more bytes can be reserved now.
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

// try reserves n bytes if there is memory and no claim of the same size waits.
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
	if !m.possible(use, n, small) { // it would wait forever, and block others
		m.mu.Unlock()
		return failure.NoMemory
	}
	l := m.lineLocked(use, small)
	*l = append(*l, c)
	m.state.Waited++
	m.grantLocked() // memory may have been returned since
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

// reclaim releases all memory that is used only for speed.
func (m *Memory) reclaim() {
	m.mu.Lock()
	waits := m.waits
	m.mu.Unlock()
	for _, f := range waits {
		f()
	}
}

// withdraw cancels a waiting claim, unless it was granted meanwhile.
func (m *Memory) withdraw(c *claim, small bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lineLocked(c.use, small)
	for i, other := range *l {
		if other == c {
			*l = append((*l)[:i:i], (*l)[i+1:]...)
			m.grantLocked() // the following claims may be smaller
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

// grantLocked grants waiting claims: small ones first, each line in order.
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

// Share is the part of a Memory that one owner has reserved: a connection, a request, a topic. It
// is for one goroutine at a time, and is moved, not copied. The zero value has no limit.
type Share struct {
	of   *Memory
	use  Use
	held int64
}

// Held returns the reserved bytes.
func (s *Share) Held() int { return int(s.held) }

// Most returns how many bytes the share could reserve if there were no other shares.
func (s *Share) Most() int {
	if s.of == nil {
		return math.MaxInt
	}
	return int(s.of.limit / 8 * min(uses[s.use].eighths, bulkEighths))
}

// Reserve reserves n more bytes. If there is no memory, it waits until ctx ends, at most for
// MemoryWait, and then returns failure.NoMemory.
func (s *Share) Reserve(ctx context.Context, n int) error {
	if s.of != nil && n > 0 {
		if s.of.reserve(ctx, s.use, int64(n), s.small(n)) != nil {
			return s.Refuse()
		}
	}
	s.held += int64(n)
	return nil
}

// Await reserves n more bytes. If there is no memory, it waits until ctx ends, and then returns
// failure.NoMemory; no client is refused. After each MemoryWait it lets the claims behind it pass, which
// may be smaller.
func (s *Share) Await(ctx context.Context, n int) error {
	if s.of != nil && n > 0 {
		for s.of.reserve(ctx, s.use, int64(n), s.small(n)) != nil {
			if ctx.Err() != nil || n > s.Most() {
				return failure.NoMemory
			}
		}
	}
	s.held += int64(n)
	return nil
}

// Try reserves n more bytes, or reports that there is no memory now.
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

// Refuse counts a refusal because there was no memory, and returns failure.NoMemory.
func (s *Share) Refuse() error {
	if s.of != nil {
		s.of.mu.Lock()
		s.of.state.Refused++
		s.of.mu.Unlock()
	}
	return failure.NoMemory
}

// small reports whether the share is small with n more bytes.
func (s *Share) small(n int) bool { return s.held+int64(n) <= SmallShare }

// Give returns n bytes, at most those that the share has.
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

// Add moves the bytes of another share of the same use to this one.
func (s *Share) Add(o *Share) {
	s.held += o.held
	o.held = 0
}

// Close returns all bytes of the share. The share may be used again.
func (s *Share) Close() { s.Give(int(s.held)) }

package peer

import (
	"errors"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
)

// largeChunk is the size up to which a frame's buffer does not count: a connection has at most one
// such buffer, and all connections together have few.
const largeChunk = 4 << 20

// errFrameMemory reports that other large frames used the memory for so long that this node closed
// the connection.
var errFrameMemory = errors.New("frame memory exhausted by other large frames")

// frameMemory is the memory that all large frames of a node share while they are read.
type frameMemory struct {
	max   int
	freed signal.Signal

	mu   sync.Mutex // guards used
	used int
}

// reserve reserves n bytes when they are free or no frame has any, and fails after timeout. A
// frame reserves all that it will need at once, so that no two frames wait for each other.
func (m *frameMemory) reserve(n int, timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		freed := m.freed.Wait()
		if m.tryTake(n) {
			return nil
		}
		select {
		case <-freed:
		case <-timer.C:
			return errFrameMemory
		}
	}
}

func (m *frameMemory) tryTake(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used > 0 && m.used+n > m.max {
		return false
	}
	m.used += n
	return true
}

func (m *frameMemory) give(n int) {
	m.mu.Lock()
	m.used -= n
	m.mu.Unlock()
	m.freed.Fire()
}

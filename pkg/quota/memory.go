package quota

import (
	"fmt"
	"sync"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/topic"
)

// inMemory is the factor between the memory of stored records and their size: they
// are stored in blocks, and twice until they are synced.
const inMemory = 2

// Memory is the memory that an ephemeral topic uses on a node. It is safe for concurrent
// use; nil is that of a topic on disk.
type Memory struct {
	most int64         // maximum bytes of one partition
	full chan struct{} // of capacity 1: gets a value when the oldest messages must be dropped

	mu     sync.Mutex // guards what follows
	share  limit.Share
	closed bool
}

// NewMemory returns the memory of a topic with a maximum of bytes per partition. full, of capacity
// 1, gets a value when the oldest messages must be dropped; share accounts for all of it.
func NewMemory(most int64, full chan struct{}, share limit.Share) *Memory {
	return &Memory{most: most, full: full, share: share}
}

// Reserve reserves memory for messages of a partition whose log has the given stored bytes. If that
// exceeds the maximum, the oldest messages are dropped; until then the partition may hold twice the
// maximum, and refuses more.
func (e *Memory) Reserve(stored int64, messages []topic.Message) error {
	if e == nil {
		return nil
	}
	n := topic.StoredSize(messages)
	if stored+int64(n) > e.most {
		e.tell()
	}
	if stored+int64(n) > 2*e.most {
		return fmt.Errorf("%w: ephemeral topic holds %d bytes in memory, limit is %d", failure.QueueFull, stored, e.most)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed && !e.share.Try(inMemory*n) {
		e.tell()
		return e.share.Refuse()
	}
	return nil
}

func (e *Memory) tell() { signal.Poke(e.full) }

// Refund returns memory that was reserved and is no longer used.
func (e *Memory) Refund(stored int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.share.Give(e.share.Held() - inMemory*int(stored))
}

// Close returns all memory of a deleted topic.
func (e *Memory) Close() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.share.Close()
}

package quota

import (
	"fmt"
	"sync"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/topic"
)

// inMemory is by how much what is stored in memory is larger than its records: it is
// in blocks, and what has not been synced is there twice.
const inMemory = 2

// Memory is the memory that an ephemeral topic takes on a node. Its methods may be called
// by many goroutines; a nil one is that of a topic on disk.
type Memory struct {
	most int64         // bytes that one partition keeps
	full chan struct{} // of capacity 1: the oldest messages are to go

	mu     sync.Mutex // guards what follows
	share  limit.Share
	closed bool
}

// NewMemory returns the memory of a topic whose partitions keep at most so many bytes each.
// full, of capacity 1, gets a value when the oldest messages must be dropped; share
// accounts for all of it.
func NewMemory(most int64, full chan struct{}, share limit.Share) *Memory {
	return &Memory{most: most, full: full, share: share}
}

// Reserve takes the room of messages, of which the partition's log has stored bytes
// already. A partition that has too much has its oldest messages dropped; until they
// are, it may have twice as much, and refuses what is beyond.
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

// Refund gives back what is paid for and not stored any more.
func (e *Memory) Refund(stored int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.share.Give(e.share.Held() - inMemory*int(stored))
}

// Close gives back everything: the topic is gone.
func (e *Memory) Close() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.share.Close()
}

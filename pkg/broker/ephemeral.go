package broker

import (
	"fmt"
	"sync"

	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/topic"
)

// inMemory is by how much what is stored in memory is larger than its records: it is
// in blocks, and what has not been synced is there twice.
const inMemory = 2

// ephemeral is the memory that an ephemeral topic takes on this node. Its methods may
// be called by many goroutines; a nil one is that of a topic on disk.
type ephemeral struct {
	most int64         // bytes that one partition keeps
	full chan struct{} // of capacity 1: the oldest messages are to go

	mu     sync.Mutex // guards what follows
	share  limit.Share
	closed bool
}

// take takes the room of messages, of which the partition's log has stored bytes
// already. A partition that has too much has its oldest messages dropped; until they
// are, it may have twice as much, and refuses what is beyond.
func (e *ephemeral) take(stored int64, messages []topic.Message) error {
	if e == nil {
		return nil
	}
	n := topic.StoredSize(messages)
	if stored+int64(n) > e.most {
		e.tell()
	}
	if stored+int64(n) > 2*e.most {
		return fmt.Errorf("%w: ephemeral topic holds %d bytes in memory, limit is %d", ErrBusy, stored, e.most)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed && !e.share.Try(inMemory*n) {
		e.tell()
		return e.share.Refuse()
	}
	return nil
}

func (e *ephemeral) tell() {
	select {
	case e.full <- struct{}{}:
	default:
	}
}

// settle gives back what is paid for and not stored any more.
func (e *ephemeral) settle(stored int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.share.Give(e.share.Held() - inMemory*int(stored))
}

// close gives back everything: the topic is gone.
func (e *ephemeral) close() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.share.Close()
}

// offer hands messages to a term of the topic; done is told what became of them, unless
// an error is returned.
func (h *hostedTopic) offer(lp *ledPartition, messages []topic.Message, done func(Receipt)) error {
	if h.memory != nil {
		if err := h.memory.take(lp.part.Log().Bytes(), messages); err != nil {
			return err
		}
	}
	return lp.offer(messages, done)
}

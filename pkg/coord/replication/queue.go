package replication

import (
	"sync"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// queue holds the requests that wait at a follower, in order, and grants the use of
// the follower's log: to the goroutine that handles the requests, or to a change of
// the follower's role, which takes that goroutine's place. A change overtakes every
// waiting request. A queue is safe for concurrent use.
type queue struct {
	most int // bytes that may wait; does not change

	mu      sync.Mutex // guards what follows
	waiting []request
	bytes   int
	working bool // a goroutine handles a request, or has acquired the queue
	takers  int  // changes of the role that wait until working is false
	closed  bool
	idle    sync.Cond // working became false
}

type request struct {
	kind    uint8
	payload []byte
	reply   func([]byte)
	by      vfs.Gatherer // the connection that it came by; nil: unknown
}

// push adds a request. With now, the caller must handle it. taken is false if the
// queue is closed or full.
func (q *queue) push(r request) (now, taken bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed || q.bytes+len(r.payload) > q.most:
		return false, false
	case q.working || q.takers > 0:
		q.waiting = append(q.waiting, r)
		q.bytes += len(r.payload)
		return false, true
	}
	q.working = true
	return true, true
}

// next pops the request after the one just handled. If there is none, or a change of the role
// waits, which goes first, the caller is done.
func (q *queue) next() (r request, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 || q.takers > 0 {
		if len(q.waiting) == 0 {
			q.waiting = nil // its memory may be large
		}
		q.working = false
		q.idle.Broadcast()
		return request{}, false
	}
	return q.popLocked(), true
}

// nextPut pops the next request if it may share a sync with the one before. None may
// while a change of the role waits. The caller's work continues either way.
func (q *queue) nextPut() (r request, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.takers > 0 || len(q.waiting) == 0 || q.waiting[0].kind != KindPut {
		return request{}, false
	}
	return q.popLocked(), true
}

func (q *queue) popLocked() request {
	r := q.waiting[0]
	q.waiting[0] = request{}
	q.waiting = q.waiting[1:]
	q.bytes -= len(r.payload)
	return r
}

// acquire waits until no request is in progress, and takes the place of the
// goroutine that would handle the next. A call of next ends that.
func (q *queue) acquire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.takers++
	for q.working {
		q.idle.Wait()
	}
	q.takers--
	q.working = true
}

// close refuses further requests.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

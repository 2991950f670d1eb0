package replication

import (
	"sync"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// queue holds the requests that wait at a follower, in order, and says who may use
// the follower's log: the goroutine that works the requests off, or a change of the
// follower's role, which takes that goroutine's place. A change passes every request
// that waits, however many there are. A queue may be used by many goroutines.
type queue struct {
	most int // bytes that may wait; does not change

	mu      sync.Mutex // guards what follows
	waiting []request
	bytes   int
	working bool // someone works a request off, or has taken the place of who would
	takers  int  // changes of the role that wait until working is false
	closed  bool
	idle    sync.Cond // working became false
}

type request struct {
	kind    uint8
	payload []byte
	reply   func([]byte)
	by      vfs.Gatherer // that it came by; nil: it is not known
}

// push adds a request. With now, the caller is the one who works it off. It is not
// taken if the queue is closed or full.
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

// next takes the request that follows one that was worked off. With none, the
// caller's work is over; and so it is while a change of the role waits, behind which
// the requests are worked off.
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

// nextPut takes the next request if it is one that may share a sync with the one before.
// None does while a change of the role waits. With none the caller's work goes on.
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

// acquire waits until no request is worked on, and takes the place of the goroutine
// that would work on the next. A call of next ends it.
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

package server

import (
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Phases of an answer.
const (
	phaseWaiting uint32 = iota // Done was not called
	phaseReady                 // can be written
)

// answer is the place of one command's answer in the order of the connection. Answers to publishes
// are reused, with a Done that is bound once.
type answer struct {
	home *sync.Pool
	done func(topic.Receipt) // publishDone, bound

	link   *link
	verb   nsq.Verb
	topic  *producedTopic
	count  int       // messages
	bytes  int       // of their bodies
	named  bool      // the publisher named a partition
	more   bool      // later commands have been read already: their answers are gathered
	traced *tracedTo // the publisher gets the place of its messages; nil: OK
	phase  atomic.Uint32
	err    error // set before phase becomes ready

	// For commands that are no publishes.
	frame []byte     // the encoded frame; nil: none
	act   func()     // run by the writer once the frame is in its buffer
	hand  *handover  // the writer flushes, and lets the reader work on the connection
	last  bool       // nothing is written after it
	fatal *nsq.Error // as last, and the client gets this error
}

func newAnswers() *sync.Pool {
	pool := &sync.Pool{}
	pool.New = func() any {
		a := &answer{home: pool}
		a.done = a.publishDone
		return a
	}
	return pool
}

// publishDone receives the broker's receipt, from any goroutine.
func (a *answer) publishDone(r topic.Receipt) {
	l, gathered := a.link, a.more // a belongs to the writer once it is ready
	if a.traced != nil {
		a.traced.receipt = r
	}
	a.err = r.Err
	a.phase.Store(phaseReady)
	if r.Err == nil && !gathered && l.direct.answer() {
		return
	}
	if awaited := l.queue.awaited.Load(); awaited == nil || awaited == a {
		l.poke()
	}
}

// release clears everything except bound functions.
func (a *answer) release() {
	a.link, a.topic, a.err = nil, nil, nil
	a.frame, a.act, a.hand, a.last, a.fatal = nil, nil, nil, false, nil
	a.count, a.bytes, a.verb, a.named, a.more, a.traced = 0, 0, nsq.Unknown, false, false, nil
	a.home.Put(a)
}

// answerQueue holds a connection's answers in the order of its commands. The
// reader pushes, the writer pops.
type answerQueue struct {
	maxCount, maxBytes int
	room               chan struct{} // of capacity 1: an answer was popped while the reader waited

	// awaited is the answer that the sleeping writer needs before it can write anything; nil: any
	// answer wakes it.
	awaited atomic.Pointer[answer]

	mu    sync.Mutex // guards the following
	ring  []*answer  // its length is a power of two
	head  int
	n     int
	bytes int
	full  bool // the reader waits for room
}

// tryPush appends an answer unless the queue is full. If it is, room will be signalled.
func (q *answerQueue) tryPush(a *answer) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n > 0 && (q.n >= q.maxCount || q.bytes+a.bytes > q.maxBytes) {
		q.full = true
		return false
	}
	if q.n == len(q.ring) {
		q.growLocked()
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = a
	q.n++
	q.bytes += a.bytes
	return true
}

const minRing = 8

func (q *answerQueue) growLocked() {
	ring := make([]*answer, max(2*len(q.ring), minRing))
	for i := range q.n {
		ring[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
	}
	q.ring, q.head = ring, 0
}

// keepRing is the longest ring that an empty queue keeps.
const keepRing = 256

// empty reports whether no answer is in progress.
func (q *answerQueue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n == 0
}

// popReady moves the answers that can be written into batch and returns their number. It stops at
// the length of batch, and after an answer that ends or stops the writing.
func (q *answerQueue) popReady(batch []*answer) int {
	q.mu.Lock()
	n := 0
	for n < len(batch) && q.n > 0 {
		a := q.ring[q.head]
		if a.phase.Load() != phaseReady {
			break
		}
		q.ring[q.head] = nil
		q.head = (q.head + 1) & (len(q.ring) - 1)
		q.n--
		q.bytes -= a.bytes
		batch[n] = a
		n++
	}
	if q.n == 0 && len(q.ring) > keepRing {
		q.ring, q.head = nil, 0
	}
	room := q.full && n > 0
	q.full = q.full && n == 0
	q.mu.Unlock()
	if room {
		signal.Poke(q.room)
	}
	return n
}

// any reports whether there are answers in progress.
func (q *answerQueue) any() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n > 0
}

// single reports whether there is one answer in progress.
func (q *answerQueue) single() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n == 1
}

// popOnly removes and returns the answer of a successful publish, if it is the only answer.
func (q *answerQueue) popOnly() *answer {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n != 1 || q.full {
		return nil
	}
	a := q.ring[q.head]
	if a.phase.Load() != phaseReady || a.topic == nil || a.err != nil || a.act != nil || a.hand != nil || a.last || a.fatal != nil {
		return nil
	}
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	q.bytes -= a.bytes
	q.awaited.Store(nil) // it may have been this one
	return a
}

// await records the answer for which the writer is about to sleep. Later answers need not wake the
// writer, and are written together with it. ready means that it has become ready meanwhile. mixed
// means that the next answer belongs to another topic, so that no group of a log completes both.
func (q *answerQueue) await() (ready, mixed bool) {
	q.mu.Lock()
	var first *answer
	if q.n > 0 {
		first = q.ring[q.head]
	}
	mixed = q.n > 1 && q.ring[(q.head+1)&(len(q.ring)-1)].topic != first.topic
	q.mu.Unlock()
	q.awaited.Store(first)
	return first != nil && first.phase.Load() == phaseReady, mixed
}

// handover lets the reader work on a connection while its writer pauses.
type handover struct {
	still  chan struct{} // closed by the writer when everything is flushed and it waits
	resume chan struct{} // closed by the reader
}

func newHandover() *handover {
	return &handover{still: make(chan struct{}), resume: make(chan struct{})}
}

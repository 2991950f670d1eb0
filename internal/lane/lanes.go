// Package lane serializes the work on each of many keys, while work on different keys runs
// concurrently.
//
// Invariants: for one key at most one run is in progress and at most one is waiting; every caller
// gets the result of a run that began after its call.
package lane

import (
	"sync"
	"time"
)

// Lanes run work per key: the runs of one key come one after another, those of different keys are
// concurrent. A caller that asks for work gets the outcome of a run that begins afterwards, and
// shares it with all who asked meanwhile. At most one run per key waits, however often it is
// requested and however long a run takes.
type Lanes[K comparable, R any] struct {
	ended error
	work  func(K) (R, error)

	mu      sync.Mutex // guards what follows
	busy    map[K]*lane[R]
	closed  bool
	running sync.WaitGroup
}

// lane is a thing that is being worked on. The mutex of the lanes guards it.
type lane[R any] struct {
	next *Outcome[R] // the run after the one in progress; nil: none
}

// Outcome is the outcome of a requested run.
type Outcome[R any] struct {
	done   chan struct{} // closed when what follows is set
	result R
	err    error
}

// New returns lanes that call work. ended is the error of requests after Close.
func New[K comparable, R any](ended error, work func(K) (R, error)) *Lanes[K, R] {
	return &Lanes[K, R]{ended: ended, work: work, busy: map[K]*lane[R]{}}
}

// Ask requests work for a key and does not wait. After Close it fails with the error that New was
// given.
func (l *Lanes[K, R]) Ask(k K) *Outcome[R] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		f := &Outcome[R]{done: make(chan struct{}), err: l.ended}
		close(f.done)
		return f
	}
	x, begun := l.busy[k]
	if !begun {
		x = &lane[R]{}
		l.busy[k] = x
	}
	if x.next == nil {
		x.next = &Outcome[R]{done: make(chan struct{})}
	}
	if !begun {
		l.running.Go(func() { l.run(k, x) })
	}
	return x.next
}

// run does the work for a key until no more is requested.
func (l *Lanes[K, R]) run(k K, x *lane[R]) {
	for {
		l.mu.Lock()
		f := x.next
		if x.next = nil; f == nil {
			delete(l.busy, k)
		}
		l.mu.Unlock()
		if f == nil {
			return
		}
		f.result, f.err = l.work(k)
		close(f.done)
	}
}

// Close accepts no more work, and returns when all requested work is done.
func (l *Lanes[K, R]) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.running.Wait()
}

// Wait returns the outcome of the run.
func (f *Outcome[R]) Wait() (R, error) {
	<-f.done
	return f.result, f.err
}

// Places bound the number of concurrent runs. A run that takes long releases its place: a few runs
// on a stalled disk do not block the others.
type Places chan struct{}

// keepPlace is for how long a place is kept.
const keepPlace = 200 * time.Millisecond

// In calls f in a place.
func (p Places) In(f func() error) error {
	p <- struct{}{}
	leave := time.AfterFunc(keepPlace, func() { <-p })
	defer func() {
		if leave.Stop() {
			<-p
		}
	}()
	return f()
}

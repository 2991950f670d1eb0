package broker

import (
	"sync"
	"time"
)

// lanes do the work on each of many things in runs that come one after the other,
// while the work on other things goes on. Who asks for work gets the outcome of a run
// that begins after that, and shares it with all who asked meanwhile. So however
// often it is asked, and however long a run takes, at most one more waits behind it.
type lanes[K comparable, R any] struct {
	work func(K) (R, error)

	mu      sync.Mutex // guards what follows
	busy    map[K]*lane[R]
	closed  bool
	running sync.WaitGroup
}

// lane is a thing that is being worked on. The mutex of the lanes guards it.
type lane[R any] struct {
	next *outcome[R] // the run behind the one under way; nil: none
}

// outcome is that of a run that was asked for.
type outcome[R any] struct {
	done   chan struct{} // closed when what follows is set
	result R
	err    error
}

func newLanes[K comparable, R any](work func(K) (R, error)) *lanes[K, R] {
	return &lanes[K, R]{work: work, busy: map[K]*lane[R]{}}
}

// ask asks for work on a thing and does not wait. After close it fails with
// ErrExiting.
func (l *lanes[K, R]) ask(k K) *outcome[R] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		f := &outcome[R]{done: make(chan struct{}), err: ErrExiting}
		close(f.done)
		return f
	}
	x, begun := l.busy[k]
	if !begun {
		x = &lane[R]{}
		l.busy[k] = x
	}
	if x.next == nil {
		x.next = &outcome[R]{done: make(chan struct{})}
	}
	if !begun {
		l.running.Go(func() { l.run(k, x) })
	}
	return x.next
}

// run does the work on a thing until nobody has asked for more.
func (l *lanes[K, R]) run(k K, x *lane[R]) {
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

// close takes no more work, and returns when all that was asked for is done.
func (l *lanes[K, R]) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.running.Wait()
}

// wait returns the outcome of the run.
func (f *outcome[R]) wait() (R, error) {
	<-f.done
	return f.result, f.err
}

// places bound how much is done at a time. What takes long gives its place to
// others: a disk that hangs under a few keeps no other from its turn.
type places chan struct{}

// keepPlace is for how long a place is kept.
const keepPlace = 200 * time.Millisecond

// in calls f in a place.
func (p places) in(f func() error) error {
	p <- struct{}{}
	leave := time.AfterFunc(keepPlace, func() { <-p })
	defer func() {
		if leave.Stop() {
			<-p
		}
	}()
	return f()
}

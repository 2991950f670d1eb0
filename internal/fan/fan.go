// Package fan calls a function for several items concurrently. The number of goroutines is
// bounded, and none outlives the call.
package fan

import (
	"errors"
	"sync"
)

// Out calls f with each of xs, at most the given number at a time, and returns when all calls have
// returned. A single element is handled on the caller's goroutine.
func Out[T any](xs []T, most int, f func(T)) { each(len(xs), most, func(i int) { f(xs[i]) }) }

// each is Out for the numbers from 0 to n, without n.
func each(n, most int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var running sync.WaitGroup
	slots := make(chan struct{}, most)
	for i := range n {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	running.Wait()
}

// Join is Each for a function that may fail, and returns the errors of all calls, joined in the
// order of the numbers.
func Join(n, most int, f func(i int) error) error {
	errs := make([]error, n)
	each(n, most, func(i int) { errs[i] = f(i) })
	return errors.Join(errs...)
}

// Group runs functions in the background until it is closed. Its zero value is ready.
// Its methods may be called concurrently.
type Group struct {
	mu      sync.Mutex // guards closed, and orders Add before Wait
	closed  bool
	running sync.WaitGroup
}

// Go runs f in a goroutine and returns true. After Close it does nothing and
// returns false.
func (g *Group) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running.Go(f)
	return true
}

// Close accepts no more work, and returns when the accepted work has ended.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}

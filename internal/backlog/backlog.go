// Package backlog processes queued items in order in the background. A goroutine runs only
// while the queue is not empty.
package backlog

import "sync"

// Of is a backlog of one kind of thing.
type Of[T any] struct {
	Do   func([]T) // is called with the next things, one call at a time
	Most int       // of them in one call

	running sync.WaitGroup
	mu      sync.Mutex // guards what follows
	queue   []T
	works   bool
	closed  bool
}

// Idle reports whether there is no work.
func (b *Of[T]) Idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.works
}

// Add adds to the backlog, unless it is closed.
func (b *Of[T]) Add(list ...T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(list) == 0 {
		return
	}
	b.queue = append(b.queue, list...)
	if !b.works {
		b.works = true
		b.running.Go(b.run)
	}
}

// Close drops the remaining work, and returns when no work is running.
func (b *Of[T]) Close() {
	b.mu.Lock()
	b.closed, b.queue = true, nil
	b.mu.Unlock()
	b.running.Wait()
}

func (b *Of[T]) run() {
	for list := b.next(); list != nil; list = b.next() {
		b.Do(list)
	}
}

// next takes the next piece of work; nil: there is none, and the worker ends.
func (b *Of[T]) next() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.queue), b.Most)
	if n == 0 {
		b.works, b.queue = false, nil
		return nil
	}
	list := b.queue[:n:n]
	b.queue = b.queue[n:]
	return list
}

package broker

import "sync"

// background runs what a node does beside its calls, until it is closed.
// Its methods may be called concurrently.
type background struct {
	mu      sync.Mutex // guards closed, and orders Add before Wait
	closed  bool
	running sync.WaitGroup
}

// Go runs f in a goroutine and returns true. After close it does nothing and
// returns false.
func (b *background) Go(f func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.running.Go(f)
	return true
}

// close takes no more work, and returns when what was taken has ended.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}

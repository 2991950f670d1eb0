package fan

import "sync"

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

// Close takes no more work, and returns when what was taken has ended.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.running.Wait()
}

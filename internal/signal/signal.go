// Package signal wakes waiting goroutines when something has changed.
package signal

import "sync"

// Signal notifies any number of waiters of an event. The zero value is ready. Its methods are safe
// for concurrent use.
type Signal struct {
	mu sync.Mutex    // guards ch
	ch chan struct{} // closed, and forgotten, each time; nil: no goroutine has waited since
}

// Wait returns a channel that is closed by the next Fire. Call it before reading the state that may
// change, so that no change is missed.
func (s *Signal) Wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// Fire notifies all current waiters.
func (s *Signal) Fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// Poke wakes the one goroutine that waits for a channel with room for one, now or when it next does.
func Poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

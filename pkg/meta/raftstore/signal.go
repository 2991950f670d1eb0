package raftstore

import "sync"

// signal tells any number of waiters that something has changed.
type signal struct {
	mu sync.Mutex    // guards ch
	ch chan struct{} // closed, and replaced, by each change
}

func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ch
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ch)
	s.ch = make(chan struct{})
}

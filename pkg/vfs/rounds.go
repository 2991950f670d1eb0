package vfs

import "sync"

// rounds lets callers that request the same work at the same time share it. A caller that arrives
// while the work is being done for others waits until that ends. Then the work is done once for all
// callers that have arrived by then. The zero value is ready to use. Its methods are safe for
// concurrent use.
type rounds struct {
	mu   sync.Mutex // guards what follows, and the fields of the queues
	open map[string]*roundQueue
}

// roundQueue is the callers that request one kind of work.
type roundQueue struct {
	turn  chan struct{} // holds an element while the work is done
	next  *round        // the round that has not begun; nil: none
	users int           // callers that wait or work; guarded by rounds.mu
}

// round is one execution of the work.
type round struct {
	done chan struct{} // closed when err is set
	err  error
}

// share does the work for key, or waits until another caller has done it. The work begins after the
// call.
func (s *rounds) share(key string, work func() error) error {
	s.mu.Lock()
	if s.open == nil {
		s.open = map[string]*roundQueue{}
	}
	q := s.open[key]
	if q == nil {
		q = &roundQueue{turn: make(chan struct{}, 1)}
		s.open[key] = q
	}
	q.users++
	r, mine := q.next, q.next == nil
	if mine {
		r = &round{done: make(chan struct{})}
		q.next = r
	}
	s.mu.Unlock()
	if mine {
		q.turn <- struct{}{}
		s.mu.Lock()
		q.next = nil // the work may not cover later callers
		s.mu.Unlock()
		r.err = work()
		<-q.turn
		close(r.done)
	} else {
		<-r.done
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(s.open, key)
	}
	return r.err
}

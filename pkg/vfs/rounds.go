package vfs

import "sync"

// rounds lets callers who ask for the same thing at the same time share its work: who
// asks while it is done for others waits for the end of that, and what is done then is
// done once for all who have asked by then. The zero value is ready to use; its methods
// is safe for concurrent use.
type rounds struct {
	mu   sync.Mutex // guards what follows, and the fields of the queues
	open map[string]*roundQueue
}

// roundQueue is those who ask for one thing.
type roundQueue struct {
	turn  chan struct{} // holds an element while the work is done
	next  *round        // that has not begun; nil if none
	users int           // who are waiting or at work; guarded by rounds.mu
}

// round is one time that the work is done.
type round struct {
	done chan struct{} // closed when err is set
	err  error
}

// share does the work for key, or waits for who does it. The work begins after the call.
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
		q.next = nil // who comes now is not sure to be covered
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

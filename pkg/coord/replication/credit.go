package replication

import (
	"slices"
	"sync"

	"github.com/brokerd/brokerd/pkg/limit"
)

// creditShare is the fraction, as a divisor, of the free credit that one replicator
// may hold. A single one can fill its window; many that get no answers leave some
// for others.
const creditShare = 8

// Credit bounds what the replicators of one node have sent to one other node without
// an answer. They share a connection, whose queue is limited: without a common bound,
// enough busy partitions fill it, and their calls fail.
//
// A replicator may send one more request, of any size, while less than Sizes.Pair is in use, so
// the use exceeds Sizes.Pair by less than one frame. Each request counts for Sizes.Request in
// addition to its payload. A replicator without credit waits in line and gets enough for one
// request at its turn. A Credit is safe for concurrent use.
type Credit struct {
	limit   int
	request int

	mu   sync.Mutex // guards what follows and the senders
	used int
	line []*sender // that wait, in order
}

// NewCredit returns a credit of Sizes.Pair bytes.
func NewCredit(s limit.Sizes) *Credit {
	s = s.OrDefault()
	return &Credit{limit: s.Pair, request: s.Request}
}

// Usage returns how many bytes are reserved or unanswered, and the limit below which
// one more request may be sent.
func (c *Credit) Usage() (used, limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used, c.limit
}

// sender returns the part of one replicator. wake is called on its own goroutine when
// a reserve that returned false would now return true.
func (c *Credit) sender(wake func()) *sender { return &sender{credit: c, wake: wake} }

// sender is one replicator's part of a Credit.
type sender struct {
	credit *Credit
	wake   func()

	// The credit's lock guards what follows.
	held     int // bytes of the credit: reserved, or sent and not answered
	reserved int // bytes for what is about to be sent
	need     int // bytes to be reserved; 0: the sender is not in line
}

// reserve reports whether the next request, with a payload of up to n bytes, may be
// sent. Otherwise the sender is in line.
func (s *sender) reserve(n int) bool {
	c := s.credit
	n += c.request
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.reserved >= n {
		return true
	}
	s.releaseLocked() // those in line hold nothing that others wait for
	if s.need == 0 {
		c.line = append(c.line, s)
	}
	s.need = max(s.need, n)
	c.grantLocked(s)
	return s.need == 0
}

// spend takes the credit for a request with a payload of n bytes from what is
// reserved, or else from what is free, and reports whether it may. No other sender
// waits for what is free, unless that one holds more than its part. The caller calls
// giveBack when the request has ended.
func (s *sender) spend(n int) bool {
	c := s.credit
	n += c.request
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.reserved < n {
		if !s.mayTakeLocked() {
			return false
		}
		s.releaseLocked()
		s.reserveLocked(n)
	}
	s.reserved -= n
	return true
}

// claim reserves and spends the credit for a request with a payload of n bytes, or
// returns false, in which case the sender is in line.
func (s *sender) claim(n int) bool { return s.reserve(n) && s.spend(n) }

// giveBack returns the credit of a request with a payload of n bytes.
func (s *sender) giveBack(n int) {
	c := s.credit
	n += c.request
	c.mu.Lock()
	defer c.mu.Unlock()
	s.held -= n
	c.used -= n
	c.grantLocked(nil)
}

// cancel removes the sender from the line and returns what it has reserved.
func (s *sender) cancel() {
	c := s.credit
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.need > 0 {
		s.need = 0
		c.line = slices.DeleteFunc(c.line, func(other *sender) bool { return other == s })
	}
	s.releaseLocked()
	c.grantLocked(nil)
}

// mayTakeLocked reports whether the sender may take more.
func (s *sender) mayTakeLocked() bool {
	return s.credit.used+creditShare*s.held < s.credit.limit
}

// reserveLocked reserves n bytes.
func (s *sender) reserveLocked(n int) {
	s.reserved += n
	s.held += n
	s.credit.used += n
}

// releaseLocked returns the reserved credit.
func (s *sender) releaseLocked() {
	s.held -= s.reserved
	s.credit.used -= s.reserved
	s.reserved = 0
}

// grantLocked serves the senders in line that may take more. It wakes them, except
// for the caller.
func (c *Credit) grantLocked(caller *sender) {
	if len(c.line) == 0 || c.used >= c.limit {
		return
	}
	c.line = slices.DeleteFunc(c.line, func(s *sender) bool {
		if !s.mayTakeLocked() {
			return false
		}
		s.reserveLocked(s.need)
		s.need = 0
		if s != caller {
			go s.wake()
		}
		return true
	})
}

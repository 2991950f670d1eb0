package commitlog

import "sync/atomic"

// leastTail is what the tail of a log may always use, however many logs there are: batches in
// transit to followers and consumers.
const leastTail = 8 << 10

// Tails divides a number of bytes among the tails of logs: each may use an equal share, at most
// its own TailBytes. Idle logs hold none after ReleaseTail. A tail above its share shrinks with
// the next append. The methods are safe for concurrent use; a nil Tails sets no bound.
type Tails struct {
	bytes int64
	taken atomic.Int64 // tails that are not empty
}

// NewTails returns Tails with the given bytes.
func NewTails(bytes int64) *Tails { return &Tails{bytes: bytes} }

// part returns how many bytes a tail may use whose own limit is limit.
func (s *Tails) part(limit int) int {
	if s == nil {
		return limit
	}
	return min(limit, int(max(s.bytes/max(s.taken.Load(), 1), leastTail)))
}

// begin records that a tail is no longer empty.
func (s *Tails) begin() {
	if s != nil {
		s.taken.Add(1)
	}
}

// end records that a tail is empty again.
func (s *Tails) end() {
	if s != nil {
		s.taken.Add(-1)
	}
}

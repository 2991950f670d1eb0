package replication

import "sync"

// Shares are what a term shares with its followers beside batches: the channels'
// positions as snapshots, and small changes between them. A snapshot takes the
// place of everything before it; a follower that begins a session gets the newest
// snapshot and the changes behind it. Shares are numbered from 1 in the order in
// which they are added. Shares may be used by many goroutines.
type Shares struct {
	mu      sync.Mutex // guards what follows
	last    uint64     // number of the newest share
	base    uint64     // number of the snapshot that is kept; 0: there is none
	shot    []byte
	changes [][]byte // behind the snapshot: the newest has number last
}

// Snapshot adds a snapshot and returns its number. The bytes are the shares'.
func (s *Shares) Snapshot(p []byte) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.base, s.shot, s.changes = s.last, p, nil
	return s.last
}

// Change adds a change and returns its number. The bytes are the shares'.
func (s *Shares) Change(p []byte) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.changes = append(s.changes, p)
	return s.last
}

// Last returns the number of the newest share, and whether there is a snapshot.
func (s *Shares) Last() (n uint64, snapshot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.base > 0
}

// after returns what a follower that was sent everything up to number sent gets
// next: a snapshot, or changes in one message. n is then the number of the last
// share that it has been sent; it is sent where there is nothing to send.
func (s *Shares) after(sent uint64) (kind uint8, payload [][]byte, n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case sent < s.base:
		return KindPositions, [][]byte{s.shot}, s.base
	case sent < s.last:
		from := len(s.changes) - int(s.last-sent)
		return KindAdvance, appendChanges(s.changes[max(from, 0):]), s.last
	}
	return 0, nil, sent
}

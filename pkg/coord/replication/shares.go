package replication

import (
	"slices"
	"sync"
)

// Shares is what a term replicates besides batches: the channels' positions as snapshots,
// updates of them, and small changes in between. A snapshot replaces everything before it; a
// follower that starts a session receives the newest snapshot and what follows. Shares are
// numbered from 1 in the order of addition. Shares is safe for concurrent use.
type Shares struct {
	mu      sync.Mutex // guards what follows
	last    uint64     // number of the newest share
	base    uint64     // number of the snapshot that is kept; 0 if none
	shot    []byte
	changes []change // after the snapshot: the newest has number last
}

// change is a share that follows the one before it.
type change struct {
	kind uint8 // kindUpdate or kindAdvance
	data []byte
}

const (
	// pieceBytes is the maximum part of a snapshot in one request.
	pieceBytes = 4 << 20
	// changesBytes is the maximum size of the changes in one request, unless a
	// single one is larger.
	changesBytes = 1 << 20
)

// Snapshot adds a snapshot and returns its number. Shares takes ownership of
// the bytes.
func (s *Shares) Snapshot(p []byte) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.base, s.shot, s.changes = s.last, p, nil
	return s.last
}

// Update adds an update, which followers store before they answer, and returns its
// number. Shares takes ownership of the bytes.
func (s *Shares) Update(p []byte) uint64 { return s.add(change{kindUpdate, p}) }

// Change adds a change, which followers keep in memory, and returns its number.
// Shares takes ownership of the bytes.
func (s *Shares) Change(p []byte) uint64 { return s.add(change{kindAdvance, p}) }

func (s *Shares) add(c change) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.changes = append(s.changes, c)
	return s.last
}

// Fold replaces all shares up to number n by an equivalent snapshot. Followers that have those
// do not receive it. Shares takes ownership of the bytes.
func (s *Shares) Fold(n uint64, p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n <= s.base || n > s.last {
		return
	}
	s.base, s.shot, s.changes = n, p, slices.Clone(s.changes[len(s.changes)-int(s.last-n):]) //nolint:gosec // not more than there are
}

// Last returns the number of the newest share, and whether there is a snapshot.
func (s *Shares) Last() (n uint64, snapshot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.base > 0
}

// sent is the part of the shares that a follower has been sent.
type sent struct {
	number uint64 // every share up to here
	base   uint64 // of the snapshot that is being sent,
	at     int    // and how much of it was
}

// after returns the next request for a follower: a piece of a snapshot, or consecutive changes of
// one kind. so is what it has been sent, and next what it has been sent afterwards; they are equal
// if there is nothing to send.
func (s *Shares) after(head header, so sent) (kind uint8, payload [][]byte, next sent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case so.number < s.base:
		if so.base != s.base {
			so = sent{number: so.number, base: s.base}
		}
		m := positions{header: head, number: s.base, total: uint64(len(s.shot)), at: uint64(so.at)} //nolint:gosec // not negative
		piece := s.shot[so.at:min(so.at+pieceBytes, len(s.shot))]
		if so.at += len(piece); so.at == len(s.shot) {
			so = sent{number: s.base}
		}
		return KindPositions, [][]byte{m.head(), piece}, so
	case so.number < s.last:
		from := len(s.changes) - int(s.last-so.number) //nolint:gosec // not more than there are
		some := run(s.changes[max(from, 0):])
		m := advance{header: head, after: so.number}
		return some[0].kind, append([][]byte{m.head()}, appendChanges(some)...), sent{number: so.number + uint64(len(some))}
	}
	return 0, nil, so
}

// run returns the first changes that are of one kind and fit into one request.
func run(all []change) []change {
	n, size := 0, 0
	for n < len(all) && all[n].kind == all[0].kind && (n == 0 || size+len(all[n].data) <= changesBytes) {
		size += len(all[n].data)
		n++
	}
	return all[:n]
}

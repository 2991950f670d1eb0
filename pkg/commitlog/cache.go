package commitlog

import (
	"slices"
	"sort"
	"sync"

	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Cache holds verified pieces of logs for random reads. Sequential readers do not fill it. It
// uses memory of a budget, evicts random pieces when the budget is exhausted, and everything
// when others wait for memory. Its methods are safe for concurrent use; a nil Cache is empty.
type Cache struct {
	memory *limit.Memory

	mu    sync.Mutex // guards what follows
	share limit.Share
	byLog map[*Log]*logPieces
	all   []*piece // in no order
	round uint64   // of Sweep
	dice  uint64
}

// logPieces holds the pieces of one log between two truncations.
type logPieces struct {
	truncations uint64
	pieces      []*piece // by first
}

// piece is the part of a log between two entries of its index.
type piece struct {
	log     *Log
	first   seq.Offset
	end     seq.Offset
	firsts  []seq.Offset // of the batches
	batches []Batch
	bytes   int    // of memory
	used    uint64 // the round of its last use; guarded by the cache's mu
	place   int    // index in Cache.all; guarded by the cache's mu
}

const (
	pieceOverhead = 256 // memory of a piece in addition to its bytes and batches
	batchOverhead = 128 // memory of a batch of a piece
)

// NewCache returns an empty cache that uses memory of a budget.
func NewCache(memory *limit.Memory) *Cache {
	c := &Cache{memory: memory, share: memory.Share(limit.Reads), byLog: map[*Log]*logPieces{}}
	memory.OnWait(c.Drop)
	return c
}

// Sweep evicts the pieces not used since the last Sweep but one.
func (c *Cache) Sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range slices.Clone(c.all) {
		if p.used+1 < c.round {
			c.removeLocked(p)
		}
	}
	c.round++
}

// Drop drops all pieces.
func (c *Cache) Drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byLog, c.all = map[*Log]*logPieces{}, nil
	c.share.Close()
}

// dropLog drops the pieces of a log that end at or below an offset.
func (c *Cache) dropLog(l *Log, end seq.Offset) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byLog[l]
	if s == nil {
		return
	}
	for _, p := range slices.Clone(s.pieces) {
		if p.end <= end {
			c.removeLocked(p)
		}
	}
}

// find returns the piece with an offset of a log after a number of truncations, or nil.
func (c *Cache) find(l *Log, truncations uint64, off seq.Offset) *piece {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.piecesLocked(l, truncations)
	if s == nil {
		return nil
	}
	i := s.after(off) - 1
	if i < 0 || !s.pieces[i].holds(off) {
		return nil
	}
	s.pieces[i].used = c.round
	return s.pieces[i]
}

// add adds a piece of a log that was read after a number of truncations, if there is memory for it.
func (c *Cache) add(p *piece, truncations uint64) {
	if c.memory.Pressed() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.piecesLocked(p.log, truncations)
	if s != nil {
		if i := s.after(p.first) - 1; i >= 0 && s.pieces[i].first == p.first {
			c.removeLocked(s.pieces[i]) // another reader's, or from when the log was shorter
		}
	}
	for !c.share.Try(p.bytes) {
		if len(c.all) == 0 {
			return
		}
		c.removeLocked(c.all[c.randomLocked(len(c.all))])
	}
	if s = c.byLog[p.log]; s == nil {
		s = &logPieces{truncations: truncations}
		c.byLog[p.log] = s
	}
	s.pieces = slices.Insert(s.pieces, s.after(p.first), p)
	p.used, p.place = c.round, len(c.all)
	c.all = append(c.all, p)
}

// piecesLocked returns the pieces of a log after a number of truncations, or nil. It drops pieces
// from before.
func (c *Cache) piecesLocked(l *Log, truncations uint64) *logPieces {
	s := c.byLog[l]
	if s == nil || s.truncations == truncations {
		return s
	}
	for _, p := range slices.Clone(s.pieces) {
		c.removeLocked(p)
	}
	return nil
}

func (c *Cache) removeLocked(p *piece) {
	s := c.byLog[p.log]
	i := s.after(p.first) - 1
	s.pieces = slices.Delete(s.pieces, i, i+1)
	if len(s.pieces) == 0 {
		delete(c.byLog, p.log)
	}
	last := c.all[len(c.all)-1]
	c.all[p.place], last.place = last, p.place
	c.all[len(c.all)-1] = nil
	c.all = c.all[:len(c.all)-1]
	c.share.Give(p.bytes)
}

// randomLocked returns a number below n. Its quality does not matter: repeated passes over a log
// that does not fit must find a part of it in the cache.
func (c *Cache) randomLocked(n int) int {
	c.dice = c.dice*6364136223846793005 + 1442695040888963407
	return int(c.dice >> 33 % uint64(n)) //nolint:gosec // below n
}

// after returns how many pieces begin at or before an offset.
func (s *logPieces) after(off seq.Offset) int {
	return sort.Search(len(s.pieces), func(i int) bool { return s.pieces[i].first > off })
}

func (p *piece) holds(off seq.Offset) bool { return off >= p.first && off < p.end }

// batch returns the batch with an offset of the piece.
func (p *piece) batch(off seq.Offset) Batch {
	i, found := slices.BinarySearch(p.firsts, off)
	if !found {
		i--
	}
	return p.batches[i]
}

// pieceOf returns a piece of one batch that uses the given bytes of memory.
func pieceOf(l *Log, b Batch, bytes int) *piece {
	b.mark()
	return &piece{
		log: l, first: b.First(), end: b.End(), firsts: []seq.Offset{b.First()}, batches: []Batch{b},
		bytes: bytes + pieceOverhead + batchOverhead + 4*b.Count(),
	}
}

// newPiece verifies the batches in raw, which was read at a position in the virtual log, of which
// the first must begin at first. It returns false unless raw consists of exactly such batches.
func newPiece(l *Log, raw []byte, position int64, first seq.Offset) (*piece, bool) {
	p := &piece{log: l, first: first, end: first, bytes: cap(raw) + pieceOverhead}
	for len(raw) > 0 {
		b, err := Decode(raw)
		if err != nil || b.First() != p.end {
			return nil, false
		}
		b.position = position
		b.mark()
		p.firsts, p.batches = append(p.firsts, b.First()), append(p.batches, b)
		p.bytes += batchOverhead + 4*b.Count()
		p.end = b.End()
		position += int64(b.Size())
		raw = raw[b.Size():]
	}
	return p, len(p.batches) > 0
}

package commitlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"sync"

	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// readAhead is how much a Reader reads at once from disk, and poorAhead how much without memory in
// the budget for reading ahead.
const (
	readAhead = 256 << 10
	poorAhead = 16 << 10
)

// Buffers lends read buffers to the readers of many logs. Unused ones are kept only until the next
// garbage collections. The zero value is an empty set of buffers.
type Buffers struct{ pool sync.Pool }

func (p *Buffers) get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, readAhead)
}

func (p *Buffers) put(b []byte) {
	if cap(b) == readAhead {
		b = b[:0]
		p.pool.Put(&b)
	}
}

// Reader reads a log. Near the log's end it reads from memory; elsewhere it holds a buffer and a
// file until Release. It reads ahead sequentially; random reads go through the log's Cache. It is
// not safe for concurrent use, and continues to work after the log is closed as long as the files
// exist.
type Reader struct {
	log         *Log
	seg         *segment // acquired; nil if none
	scan        scanner
	truncations uint64 // of the log when the buffer was filled
	next        seq.Offset
	nextAt      int64       // position in seg of the batch that begins with next
	piece       *piece      // last piece read; nil if none
	order       seq.Offset  // where the last batch ended: a sequential reader continues there
	forAhead    limit.Share // if empty, it reads poorAhead at once
	forLarge    limit.Share // for a larger batch, until Rest
}

// NewReader returns a reader, which holds no resources yet.
func (l *Log) NewReader() *Reader { return &Reader{log: l} }

// Paid charges a new reader's memory to the budget of the log's Cache, for readers whose number
// clients control, and returns the reader. A batch larger than the read size waits for memory,
// and fails with failure.NoMemory. Call Rest between uses.
func (r *Reader) Paid() *Reader {
	if c := r.log.opts.Cache; c != nil {
		r.forAhead, r.forLarge = c.memory.Share(limit.ReadAhead), c.memory.Share(limit.Batches)
	}
	return r
}

// Release releases the buffer and the file. The reader can be used again. Batches read from
// disk are no longer valid.
func (r *Reader) Release() {
	if r.seg != nil {
		r.seg.release()
		r.seg = nil
	}
	if r.scan.buf != nil {
		r.log.opts.Buffers.put(r.scan.buf)
	}
	r.scan, r.piece = scanner{}, nil
	r.forAhead.Close()
	r.forLarge.Close()
}

// Rest releases what the reader holds beyond its read size, because its owner may be busy elsewhere
// for long, and reports whether b, the last returned batch, remains valid. If it does not, and
// contains next, which is read next, the Cache keeps b, if there is memory.
func (r *Reader) Rest(b Batch, next seq.Offset) bool {
	small := r.atOnce()
	stays := b.Size() <= small
	if r.piece != nil && r.piece.bytes > small {
		r.piece, stays = nil, false
	}
	if cap(r.scan.buf) > small {
		if cache := r.log.opts.Cache; cache != nil && b.Size() > small && next < b.End() && r.next == b.End() {
			cache.add(pieceOf(r.log, b, cap(r.scan.buf)), r.truncations)
		}
		r.scan.buf, stays = nil, false
	}
	r.forLarge.Close()
	return stays
}

// atOnce is the read size, which the reader may hold while it rests.
func (r *Reader) atOnce() int {
	if r.forAhead.Held() > 0 {
		return readAhead
	}
	return poorAhead
}

// pay reserves memory for n bytes read as one unit, and waits for it. An amount above the whole
// budget counts as the whole budget.
func (r *Reader) pay(n int) error {
	if r.affords(n) {
		return nil
	}
	// A waiting reader holds nothing, so that two cannot wait for each other.
	r.scan.buf = nil
	r.forLarge.Close()
	return r.forLarge.Reserve(context.Background(), min(n, r.forLarge.Most()))
}

// affords is pay without waiting.
func (r *Reader) affords(n int) bool {
	more := min(n, r.forLarge.Most()) - r.forLarge.Held()
	return n <= r.atOnce() || more <= 0 || r.forLarge.Try(more)
}

// Batch returns the batch that contains off. Its bytes are valid until the next call. It
// returns errBeyondCommitted for an uncommitted offset, *BelowStartError below the start, and
// *CorruptionError in a damaged range, which gives the offset to continue at. A batch may
// extend beyond the committed end: use only the records below it.
func (r *Reader) Batch(off seq.Offset) (Batch, error) {
	if off >= r.log.CommittedEnd() {
		return Batch{}, errBeyondCommitted
	}
	return r.read(off, r.log.opts.Cache)
}

// Written is Batch without regard to the committed end: a later leader may truncate what is beyond
// it.
func (r *Reader) Written(off seq.Offset) (Batch, error) { return r.batch(off) }

// batch is Batch without regard to the committed end, bypassing the cache.
func (r *Reader) batch(off seq.Offset) (Batch, error) { return r.read(off, nil) }

// read returns the batch that contains off: from the tail, from a cache if given, or from disk.
func (r *Reader) read(off seq.Offset, cache *Cache) (Batch, error) {
	if start := r.log.Start(); off < start {
		return Batch{}, &BelowStartError{Start: start}
	}
	if off >= r.log.End() {
		return Batch{}, errBeyondEnd
	}
	if b, ok := r.log.tail.find(off); ok {
		return b, nil
	}
	if now := r.log.truncations.Load(); now != r.truncations {
		r.Release()
		r.truncations = now
	}
	b, ok := r.kept(off, cache)
	if !ok {
		var err error
		if b, err = r.fromDisk(off); err != nil {
			return Batch{}, err
		}
	}
	r.order = b.End()
	return b, nil
}

// kept returns the batch that contains off if the cache has it, or should have it: a reader that
// jumps reads the piece into the cache.
func (r *Reader) kept(off seq.Offset, cache *Cache) (Batch, bool) {
	if cache == nil || r.ahead(off) {
		return Batch{}, false
	}
	if r.piece == nil || !r.piece.holds(off) {
		p := cache.find(r.log, r.truncations, off)
		if p == nil && off != r.order {
			if p = r.load(off); p != nil {
				cache.add(p, r.truncations)
			}
		}
		if p != nil && !r.affords(p.bytes) {
			p = nil // a single batch may need less memory, and may wait
		}
		r.piece = p
	}
	if r.piece == nil {
		return Batch{}, false
	}
	return r.piece.batch(off), true
}

// ahead reports whether off begins the next batch, and was read with the last one.
func (r *Reader) ahead(off seq.Offset) bool {
	return r.nextAt != 0 && r.next == off && r.nextAt >= r.scan.off && r.nextAt < r.scan.off+int64(len(r.scan.buf))
}

// load reads the piece of the log that contains off. It returns nil if the piece cannot be read or
// is damaged in any way: reading batch by batch determines the damage.
func (r *Reader) load(off seq.Offset) *piece {
	if r.enter(off) != nil {
		return nil
	}
	if _, lost := r.seg.lost(off); lost {
		return nil
	}
	entries, err := r.seg.entries(r.log.fs, r.log.opts.IndexBytes)
	if err != nil {
		return nil
	}
	from, to := indexEntry{offset: r.seg.base, position: segmenthead.Bytes}, r.scan.size
	i := sort.Search(len(entries), func(i int) bool { return entries[i].offset > off })
	if i > 0 {
		from = entries[i-1]
	}
	if i < len(entries) {
		to = min(to, entries[i].position)
	}
	size := max(0, int(to-from.position))
	if !r.affords(size + pieceOverhead) {
		return nil
	}
	raw := make([]byte, size)
	if vfs.ReadFull(r.scan.file, raw, from.position) != nil {
		return nil
	}
	p, ok := newPiece(r.log, raw, r.seg.position(from.position), from.offset)
	if !ok || !p.holds(off) {
		return nil
	}
	return p
}

// fromDisk reads the batch that contains off.
func (r *Reader) fromDisk(off seq.Offset) (Batch, error) {
	if err := r.enter(off); err != nil {
		return Batch{}, err
	}
	if d, lost := r.seg.lost(off); lost {
		return Batch{}, d.err()
	}
	at, expect, err := r.seek(off)
	if err != nil {
		return Batch{}, err
	}
	return r.walk(off, at, expect)
}

// enter opens the segment that contains off.
func (r *Reader) enter(off seq.Offset) error {
	if r.seg == nil || off < r.seg.base || off >= r.seg.endOffset() {
		seg, err := r.locate(off)
		if err != nil {
			return err
		}
		file, err := seg.acquire(r.log.fs)
		if err != nil {
			if start := r.log.Start(); errors.Is(err, fs.ErrNotExist) && off < start {
				return &BelowStartError{Start: start}
			} else if errors.Is(err, fs.ErrNotExist) && stands(r.log, seg, r.truncations) {
				return Damage{Path: seg.path, From: seg.base, Next: seg.endOffset()}.err()
			}
			return fmt.Errorf("read at offset %d: %w", off, err)
		}
		if r.seg != nil {
			r.seg.release()
		}
		buf := r.scan.buf
		if r.forAhead.Held() == 0 && r.forAhead.Try(readAhead) {
			buf = r.log.opts.Buffers.get()
		}
		r.seg, r.scan, r.nextAt = seg, scanner{file: file, chunk: int64(r.atOnce()), buf: buf[:0], pay: r.pay}, 0
	}
	r.scan.size = r.seg.size.Load()
	return nil
}

// locate returns the segment that contains off, or the error of a loss between segments.
func (r *Reader) locate(off seq.Offset) (*segment, error) {
	l := r.log
	view := l.view()
	i := sort.Search(len(view), func(i int) bool { return view[i].base > off }) - 1
	if i >= 0 && off < view[i].endOffset() {
		return view[i], nil
	}
	if start := l.Start(); off < start {
		return nil, &BelowStartError{Start: start}
	}
	lost := Damage{Path: l.dir, From: l.Start(), Next: l.End()}
	if i >= 0 {
		lost = Damage{Path: view[i].path, Position: view[i].size.Load(), From: view[i].endOffset(), Next: l.End()}
	}
	if i+1 < len(view) {
		lost.Next = view[i+1].base
	}
	return nil, lost.err()
}

// seek returns a position in the segment at which a batch begins, not after off.
func (r *Reader) seek(off seq.Offset) (at int64, first seq.Offset, err error) {
	if r.nextAt != 0 && r.next == off {
		return r.nextAt, off, nil
	}
	entries, err := r.seg.entries(r.log.fs, r.log.opts.IndexBytes)
	if err != nil {
		return 0, 0, fmt.Errorf("read at offset %d: %w", off, err)
	}
	if e, ok := seekOffset(entries, off); ok {
		return e.position, e.offset, nil
	}
	return segmenthead.Bytes, r.seg.base, nil
}

// walk reads batch by batch up to the one that contains off.
func (r *Reader) walk(off seq.Offset, at int64, expect seq.Offset) (Batch, error) {
	for {
		b, err := r.scan.batch(at)
		if err == nil && b.First() == expect {
			b.position = r.seg.position(at)
			at += int64(b.Size())
			expect = b.End()
			if off < b.End() {
				r.next, r.nextAt = expect, at
				return b, nil
			}
			continue
		}
		if err != nil && !errors.Is(err, errNoBatch) && !errors.Is(err, ErrInvalidBatch) {
			return Batch{}, fmt.Errorf("read at offset %d: %w", off, err)
		}
		d, next, err := diagnose(r.seg, &r.scan, at, expect)
		if err != nil {
			return Batch{}, err
		}
		r.seg.addDamage(d)
		if off < d.Next {
			return Batch{}, d.err()
		}
		at, expect = next, d.Next
	}
}

// diagnose finds where intact data resumes after damage in a segment.
func diagnose(seg *segment, scan *scanner, at int64, expect seq.Offset) (Damage, int64, error) {
	d := Damage{Path: seg.path, Position: at, From: expect, Next: seg.endOffset()}
	end := d.Next
	next, found, err := scan.resync(at, func(b Batch) bool {
		if b.First() <= expect || b.End() > end {
			return false
		}
		d.Next = b.First()
		return true
	})
	if err != nil {
		return d, 0, fmt.Errorf("find intact data after %w: %w", d.err(), err)
	}
	if !found {
		d.Next, next = end, seg.size.Load()
	}
	return d, next, nil
}

// ReadRaw returns whole batches as stored on disk, starting with the one that contains from, in
// buf if they fit: at least one, otherwise at most maxBytes. It may read beyond the committed
// end: it is for replication. At the log's end it returns nothing. The receiver verifies the
// bytes when it appends them.
func (l *Log) ReadRaw(from seq.Offset, maxBytes int, buf []byte) ([]byte, error) {
	buf = buf[:0]
	if end := l.End(); from >= end {
		if from > end {
			return buf, errBeyondEnd
		}
		return buf, nil
	}
	r := l.NewReader()
	defer r.Release()
	for from < l.End() {
		b, err := r.batch(from)
		if err != nil {
			if len(buf) > 0 {
				return buf, nil //nolint:nilerr // the next call starts there and reports it
			}
			return buf, err
		}
		if len(buf) > 0 && len(buf)+b.Size() > maxBytes {
			break
		}
		buf = append(buf, b.Raw()...)
		from = b.End()
	}
	return buf, nil
}

// OffsetAt returns the first offset whose batch has a timestamp at or after the given one, or the
// committed end. Timestamps need not be in order: the first by offset counts. Damaged ranges are
// skipped.
func (l *Log) OffsetAt(timestamp int64) (seq.Offset, error) {
	r := l.NewReader()
	defer r.Release()
	committed := l.CommittedEnd()
	for _, s := range l.view() {
		if s.maxTime.Load() < timestamp || s.base >= committed {
			continue
		}
		off, found, err := r.firstAt(s, timestamp)
		if err != nil {
			return 0, err
		}
		if found {
			return min(off, committed), nil
		}
	}
	return committed, nil
}

// OffsetAtPosition returns the offset of the committed record at a byte position: see
// Records.PositionBefore. Before the start of the log that is the first record, after its end the
// committed end. Damaged ranges are an error.
func (r *Reader) OffsetAtPosition(position int64) (seq.Offset, error) {
	from, end := r.log.Start(), r.log.CommittedEnd()
	for from < end {
		b, err := r.Batch(from + (end-from)/2)
		var below *BelowStartError
		switch {
		case errors.As(err, &below):
			from = max(from, below.Start) // retention has dropped it meanwhile
		case err != nil:
			return 0, err
		case position < b.Position():
			end = max(from, b.First())
		case position >= b.Position()+int64(b.Size()):
			from = b.End()
		default:
			return min(max(b.offsetAt(position), from), end), nil
		}
	}
	return from, nil
}

// firstAt searches for a timestamp in one segment.
func (r *Reader) firstAt(s *segment, timestamp int64) (seq.Offset, bool, error) {
	if _, err := s.acquire(r.log.fs); err != nil {
		if errors.Is(err, fs.ErrNotExist) && s.base < r.log.Start() {
			return 0, false, nil
		}
		return 0, false, err
	}
	defer s.release()
	entries, err := s.entries(r.log.fs, r.log.opts.IndexBytes)
	if err != nil {
		return 0, false, err
	}
	off := s.base
	if e, ok := seekTime(entries, timestamp); ok {
		off = e.offset
	}
	for end := s.endOffset(); off < end; {
		b, err := r.batch(off)
		var damaged *CorruptionError
		var below *BelowStartError
		switch {
		case errors.As(err, &damaged):
			off = damaged.Next
		case errors.As(err, &below):
			off = below.Start
		case err != nil:
			return 0, false, err
		case b.Timestamp() >= timestamp:
			return b.First(), true, nil
		default:
			off = b.End()
		}
	}
	return 0, false, nil
}

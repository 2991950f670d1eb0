package commitlog

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// cachedLog returns a log of batches of one to seven records, all committed, whose
// readers jump through a cache with a budget, and whose reads are counted.
func cachedLog(t *testing.T, budget int64, batches int) (*Log, *Writer, *reads) {
	t.Helper()
	counted := &reads{Faulty: vfstest.NewFaulty(vfs.NewMem())}
	counted.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, segmenthead.Suffix) {
			counted.n++
		}
		return vfstest.Fault{}
	})
	o := smallOptions()
	o.TailBytes, o.SegmentBytes, o.IndexBytes = -1, 4<<10, 512
	o.Cache = NewCache(limit.NewMemory(budget))
	l, _ := mustOpen(t, counted, o)
	w := mustWriter(t, l, 1)
	for i := range batches {
		mustAppend(t, w, i%7+1)
	}
	mustSync(t, w)
	l.Commit(l.End())
	return l, w, counted
}

type reads struct {
	*vfstest.Faulty
	n int // of segments
}

const enough = math.MaxInt64 / 8

// mustFind reads one record.
func mustFind(t *testing.T, r *Reader, off seq.Offset) Batch {
	t.Helper()
	b, err := r.Batch(off)
	if err != nil {
		t.Fatalf("reading %d: %v", off, err)
	}
	records := b.Records(off)
	if o, p, ok := records.Next(); !ok || o != off || !bytes.Equal(p, payload(off)) {
		t.Fatalf("record %d, want %d, holds %x", o, off, p)
	}
	if o, _, ok := records.Next(); ok != (off+1 < b.End()) || ok && o != off+1 {
		t.Fatalf("behind record %d of [%d,%d): %d %v", off, b.First(), b.End(), o, ok)
	}
	return b
}

func TestReadsInAnyOrderReturnWrittenData(t *testing.T) {
	rng := testrand.New(t)
	for _, budget := range []int64{0, 8 << 10, 40 << 10, enough} {
		l, _, _ := cachedLog(t, budget, 200)
		readers := []*Reader{l.NewReader(), l.NewReader()}
		off := seq.Offset(0)
		for range 3000 {
			r := readers[rng.IntN(len(readers))]
			if off++; off >= l.End() || rng.IntN(3) > 0 {
				off = seq.Offset(rng.Uint64N(uint64(l.End())))
			}
			mustFind(t, r, off)
			switch rng.IntN(50) {
			case 0:
				r.Release()
			case 1:
				l.opts.Cache.Sweep()
			}
			if held, most := int64(l.opts.Cache.share.Held()), budget/4; held > most {
				t.Fatalf("the cache has %d bytes of %d", held, most)
			}
		}
		mustClose(t, l)
		if held := l.opts.Cache.share.Held(); held != 0 {
			t.Fatalf("%d bytes are held of a closed log", held)
		}
	}
}

func TestCachedDataIsNotReadAgain(t *testing.T) {
	l, _, counted := cachedLog(t, enough, 200)
	r := l.NewReader()
	for off := l.End(); off > 0; off-- {
		mustFind(t, r, off-1)
	}
	before := counted.n
	other := l.NewReader()
	for i := range l.End() {
		mustFind(t, other, (i*37)%l.End())
	}
	if counted.n != before {
		t.Errorf("%d reads of what is kept", counted.n-before)
	}
	l.opts.Cache.Drop()
	mustFind(t, l.NewReader(), l.End()/2)
	if counted.n == before {
		t.Error("what was dropped was not read again")
	}
}

func TestReadsInOrderDoNotFillTheCache(t *testing.T) {
	l, _, _ := cachedLog(t, enough, 200)
	r := l.NewReader()
	for off := seq.Offset(0); off < l.End(); {
		off = mustFind(t, r, off).End()
	}
	if held := l.opts.Cache.share.Held(); held != 0 {
		t.Errorf("the cache has %d bytes", held)
	}
}

func TestDamageIsFoundByTheReadFromDisk(t *testing.T) {
	for _, warm := range []bool{false, true} {
		l, _, counted := cachedLog(t, enough, 60)
		r := l.NewReader()
		good := mustFind(t, l.NewReader(), 100)
		bad := mustFind(t, l.NewReader(), good.End())
		if !warm {
			l.opts.Cache.Drop()
		}
		seg := l.view()[0]
		for _, s := range l.view() {
			if s.base <= bad.First() {
				seg = s
			}
		}
		flip(t, counted, seg.path, bad.Position()-seg.basePos+segmenthead.Bytes+headerBytes+3)
		if warm {
			mustFind(t, r, bad.First()) // it was checked, and is in memory
			l.opts.Cache.Drop()
			r.Release()
		}
		var damaged *CorruptionError
		if b, err := r.Batch(bad.End() - 1); !errors.As(err, &damaged) || damaged.From != bad.First() || damaged.Next != bad.End() {
			t.Fatalf("damage of [%d,%d): [%d,%d), %v", bad.First(), bad.End(), b.First(), b.End(), err)
		}
		mustFind(t, r, good.First())
		mustFind(t, r, bad.End())
	}
}

// Records cached together with committed ones may be truncated, and other records
// take their offsets.
func TestTruncatedDataIsNotReadFromCache(t *testing.T) {
	for name, cut := range map[string]func(*Writer, seq.Offset) error{
		"truncated": func(w *Writer, end seq.Offset) error { return w.TruncateTo(end) },
		"reset": func(w *Writer, end seq.Offset) error {
			return w.Reset(Origin{Start: end, Position: 1 << 20, Before: 1})
		},
	} {
		l, w, _ := cachedLog(t, enough, 60)
		committed := l.End()
		mustAppend(t, w, 1)
		mustAppend(t, w, 1)
		r := l.NewReader()
		mustFind(t, r, committed-1) // with the data after it
		if p := l.opts.Cache.find(l, l.truncations.Load(), committed); p == nil {
			t.Fatal("the test needs a piece that reaches beyond the committed end")
		}
		w = mustWriter(t, l, 2)
		if err := cut(w, committed); err != nil {
			t.Fatal(name, err)
		}
		mustAppend(t, w, 2)
		mustSync(t, w)
		l.Commit(l.End())
		for _, reader := range []*Reader{l.NewReader(), r} {
			for _, off := range []seq.Offset{committed + 1, committed} {
				if b := mustFind(t, reader, off); b.Epoch() != 2 || b.First() != committed || b.End() != committed+2 {
					t.Errorf("%s: epoch %d, [%d,%d)", name, b.Epoch(), b.First(), b.End())
				}
			}
		}
	}
}

// A piece of the log read before a truncation may be added to the cache after
// it.
func TestPieceFromBeforeTruncationIsNotFound(t *testing.T) {
	l, w, _ := cachedLog(t, enough, 60)
	committed := l.End()
	mustAppend(t, w, 1)
	r := l.NewReader()
	before := l.truncations.Load()
	p := r.load(committed)
	if err := w.TruncateTo(committed); err != nil {
		t.Fatal(err)
	}
	l.opts.Cache.add(p, before)
	if l.opts.Cache.find(l, l.truncations.Load(), committed) != nil {
		t.Error("what was cut off is found")
	}
	if held := l.opts.Cache.share.Held(); held != 0 {
		t.Errorf("%d bytes are held of it", held)
	}
}

func TestPieceGrowsWithItsLog(t *testing.T) {
	l, w, _ := cachedLog(t, enough, 0)
	for range 40 {
		mustAppend(t, w, 1)
		l.Commit(l.End())
		mustFind(t, l.NewReader(), l.End()-1)
	}
	pieces := map[seq.Offset]bool{}
	for _, p := range l.opts.Cache.all {
		if pieces[p.first] {
			t.Errorf("two pieces begin at %d", p.first)
		}
		pieces[p.first] = true
	}
}

func TestRetentionDropsCachedPieces(t *testing.T) {
	l, _, _ := cachedLog(t, enough, 200)
	r := l.NewReader()
	for off := l.End(); off > 0; off-- {
		mustFind(t, r, off-1)
	}
	floor := l.End() / 2
	before := l.opts.Cache.share.Held()
	if n, err := l.Retain(Retention{Floor: floor}); n == 0 || err != nil {
		t.Fatalf("%d segments dropped: %v", n, err)
	}
	for _, p := range l.opts.Cache.all {
		if p.end <= l.Start() {
			t.Errorf("[%d,%d) is kept of a log that starts at %d", p.first, p.end, l.Start())
		}
	}
	if held := l.opts.Cache.share.Held(); held < before/4 || held > before*3/4 {
		t.Errorf("%d of %d bytes are held", held, before)
	}
	var below *BelowStartError
	if _, err := r.Batch(l.Start() - 1); !errors.As(err, &below) {
		t.Errorf("read of what has gone: %v", err)
	}
	mustFind(t, r, l.Start())
}

func TestCacheReleasesMemory(t *testing.T) {
	const budget = 1 << 20
	l, _, _ := cachedLog(t, budget, 200)
	cache := l.opts.Cache
	fill := func() {
		t.Helper()
		r := l.NewReader()
		for off := l.End(); off > 0; off-- {
			mustFind(t, r, off-1)
		}
		if cache.share.Held() < 20<<10 {
			t.Fatalf("%d bytes are cached", cache.share.Held())
		}
	}
	fill()
	cache.Sweep()
	held := cache.share.Held()
	mustFind(t, l.NewReader(), l.End()/2)
	cache.Sweep()
	if now := cache.share.Held(); now != held {
		t.Errorf("%d of %d bytes are left of what was used a round ago", now, held)
	}
	cache.Sweep()
	if len(cache.all) != 1 || !cache.all[0].holds(l.End()/2) {
		t.Errorf("%d pieces are left of one that was used", len(cache.all))
	}
	cache.Sweep()
	if now := cache.share.Held(); now != 0 || len(cache.byLog) != 0 {
		t.Errorf("%d bytes are left of what is not used", now)
	}
	fill()
	other := cache.memory.Share(limit.Bodies)
	if err := other.Reserve(t.Context(), budget/4*3); err != nil {
		t.Errorf("the cache is in the way: %v", err)
	}
	if now := cache.share.Held(); now != 0 {
		t.Errorf("the cache keeps %d bytes while another share wants memory", now)
	}
	mustFind(t, l.NewReader(), l.End()/2) // which finds no room
}

package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

const testDir = "data/topic/0"

// smallOptions make segments and index distances small, so that a short test
// has many of them, and cached data is evicted soon.
func smallOptions() Options {
	return Options{SegmentBytes: 1024, IndexBytes: 128, TailBytes: 512, FillBytes: -1, Cache: NewCache(limit.NewMemory(16 << 10))}
}

func mustOpen(t testing.TB, fsys vfs.FS, o Options) (*Log, Recovery) {
	t.Helper()
	l, r, err := Open(fsys, testDir, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l, r
}

func mustWriter(t testing.TB, l *Log, e seq.Epoch) *Writer {
	t.Helper()
	w, err := l.Writer(e)
	if err != nil {
		t.Fatalf("writer of epoch %d: %v", e, err)
	}
	return w
}

// payload returns the payload of record off in the tests: 8 to about 100 bytes.
func payload(off seq.Offset) []byte {
	p := make([]byte, 8+uint64(off)*37%97)
	binary.LittleEndian.PutUint64(p, uint64(off))
	for i := 8; i < len(p); i++ {
		p[i] = byte(uint64(off)*7 + uint64(i))
	}
	return p
}

func build(first seq.Offset, count int) *Builder {
	b := new(Builder)
	for i := range count {
		p := payload(first + seq.Offset(i))
		copy(b.Next(len(p)), p)
	}
	return b
}

func mustAppend(t testing.TB, w *Writer, count int) Batch {
	t.Helper()
	first := w.log.End()
	batch, err := w.Append(build(first, count), int64(first)*1000)
	if err != nil {
		t.Fatalf("append at %d: %v", first, err)
	}
	return batch
}

func mustSync(t testing.TB, w *Writer) {
	t.Helper()
	if end, err := w.Sync(); err != nil || end != w.log.End() {
		t.Fatalf("sync: durable end %d of %d: %v", end, w.log.End(), err)
	}
}

// checkRecords reads [from, to) and compares every record.
func checkRecords(l *Log, from, to seq.Offset) error {
	r := l.NewReader()
	defer r.Release()
	for off := from; off < to; {
		b, err := r.batch(off)
		if err != nil {
			return fmt.Errorf("reading %d: %w", off, err)
		}
		if off < b.First() || off >= b.End() {
			return fmt.Errorf("asked for %d, got batch [%d,%d)", off, b.First(), b.End())
		}
		it := b.Records(off)
		for o, p, ok := it.Next(); ok; o, p, ok = it.Next() {
			if o != off || !bytes.Equal(p, payload(off)) {
				return fmt.Errorf("record %d, want %d, holds %x", o, off, p)
			}
			off++
		}
		if off != b.End() {
			return fmt.Errorf("batch to %d ended at %d", b.End(), off)
		}
	}
	return nil
}

func mustRead(t testing.TB, l *Log, from, to seq.Offset) {
	t.Helper()
	if err := checkRecords(l, from, to); err != nil {
		t.Fatal(err)
	}
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// newRand returns a generator whose seed is printed if the test fails.
func newRand(t *testing.T, seed uint64) *rand.Rand {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, seed))
}

// flip inverts a byte of a file.
func flip(t testing.TB, fsys vfs.FS, path string, off int64) {
	t.Helper()
	f, err := fsys.OpenReadWrite(path)
	if err != nil {
		t.Fatal(err)
	}
	var p [1]byte
	_, rerr := f.ReadAt(p[:], off)
	p[0] ^= 0xff
	_, werr := f.WriteAt(p[:], off)
	if err := errors.Join(rerr, werr, f.SyncData(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// Record returns the payload of record i, from 0.
func (b Batch) Record(i int) []byte {
	records := b.Records(b.First() + seq.Offset(i)) //nolint:gosec // an index is not negative
	_, payload, ok := records.Next()
	if !ok {
		panic("BUG: record index out of range")
	}
	return payload
}

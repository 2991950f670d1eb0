package commitlog

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// benchBatch forms a batch of 100 records of 128 bytes.
func benchBatch() *Builder {
	b := new(Builder)
	for range 100 {
		b.Next(128)
	}
	return b
}

func benchLog(b *testing.B, o Options) (*Log, *Writer) {
	b.Helper()
	l, _, err := Open(vfs.OS{}, b.TempDir()+"/log", o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	return l, mustWriter(b, l, 1)
}

func BenchmarkAppend128x100(b *testing.B) {
	_, w := benchLog(b, Options{})
	b.ReportAllocs()
	b.SetBytes(100 * 128)
	for b.Loop() {
		if _, err := w.Append(benchBatch(), 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendSync(b *testing.B) {
	for _, c := range []struct {
		name string
		size int
		fill int64
	}{
		{"2KiB/fill", 2 << 10, 0},
		{"2KiB/nofill", 2 << 10, -1},
		{"4KiB/fill", 4 << 10, 0},
		{"4KiB/nofill", 4 << 10, -1},
		{"256KiB/fill", 256 << 10, 0},
		{"256KiB/nofill", 256 << 10, -1},
	} {
		b.Run(c.name, func(b *testing.B) {
			_, w := benchLog(b, Options{FillBytes: c.fill})
			b.SetBytes(int64(c.size))
			for b.Loop() {
				batch := new(Builder)
				batch.Next(c.size - headerBytes - 4)
				if _, err := w.Append(batch, 0); err != nil {
					b.Fatal(err)
				}
				if _, err := w.Sync(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchRead(b *testing.B, o Options, batches int) {
	b.Helper()
	l, w := benchLog(b, o)
	for range batches {
		if _, err := w.Append(benchBatch(), 0); err != nil {
			b.Fatal(err)
		}
	}
	l.Commit(l.End())
	from := l.End() - seq.Offset(batches*100)
	r := l.NewReader()
	defer r.Release()
	b.ReportAllocs()
	b.SetBytes(100 * 128)
	off := from
	for b.Loop() {
		batch, err := r.Batch(off)
		if err != nil {
			b.Fatal(err)
		}
		it := batch.Records(off)
		for _, _, ok := it.Next(); ok; _, _, ok = it.Next() {
			off++
		}
		if off >= l.End() {
			off = from
		}
	}
}

func BenchmarkReadTail(b *testing.B) { benchRead(b, Options{}, 50) }

func BenchmarkReadDisk(b *testing.B) { benchRead(b, Options{TailBytes: -1}, 4000) }

// BenchmarkAppendCommit measures an append with the note of the committed end:
// compare it with BenchmarkAppend.
func BenchmarkAppendCommit(b *testing.B) {
	l, w := benchLog(b, Options{})
	b.ReportAllocs()
	b.SetBytes(100 * 128)
	for b.Loop() {
		if _, err := w.Append(benchBatch(), 0); err != nil {
			b.Fatal(err)
		}
		l.Commit(l.End())
	}
}

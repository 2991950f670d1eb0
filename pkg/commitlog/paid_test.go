package commitlog

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// bulkyRecord is the size of a record of bulkyLog.
const bulkyRecord = 100 << 10

// bulkyLog returns a log on disk of batches with the given numbers of large records, and
// the budget of its readers.
func bulkyLog(t *testing.T, budget int64, batches ...int) (*Log, *limit.Memory, *reads) {
	t.Helper()
	counted := &reads{Faulty: vfstest.NewFaulty(vfs.NewMem())}
	counted.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpRead {
			counted.n++
		}
		return vfstest.Fault{}
	})
	m := limit.NewMemory(budget)
	l, _ := mustOpen(t, counted, Options{TailBytes: -1, FillBytes: -1, Cache: NewCache(m)})
	t.Cleanup(func() { mustClose(t, l) })
	w := mustWriter(t, l, 1)
	for _, n := range batches {
		b := new(Builder)
		for i := range n {
			copy(b.Next(bulkyRecord), bytes.Repeat([]byte{byte(int(l.End()) + i)}, bulkyRecord))
		}
		if _, err := w.Append(b, 0); err != nil {
			t.Fatal(err)
		}
	}
	mustSync(t, w)
	l.Commit(l.End())
	return l, m, counted
}

// mustFindBulky reads the batch that holds an offset.
func mustFindBulky(t *testing.T, r *Reader, off seq.Offset) Batch {
	t.Helper()
	b, err := r.Batch(off)
	if err != nil {
		t.Fatalf("reading %d: %v", off, err)
	}
	if got := b.Record(int(off - b.First())); len(got) != bulkyRecord || got[0] != byte(off) { //nolint:gosec // of few
		t.Fatalf("record %d is %d bytes of %d", off, len(got), got[0])
	}
	return b
}

func TestIdleReaderHoldsNoLargeBatch(t *testing.T) {
	l, m, counted := bulkyLog(t, 64<<20, 4, 4, 4)
	r := l.NewReader().Paid()
	for first := seq.Offset(0); first < l.End(); first += 4 {
		b := mustFindBulky(t, r, first)
		if u := m.Usage().Uses; u[limit.Batches] < int64(b.Size()) || u[limit.ReadAhead] != readAhead {
			t.Errorf("%d bytes are charged for a batch of %d, and %d for reading ahead", u[limit.Batches], b.Size(), u[limit.ReadAhead])
		}
		for off := first + 1; off < first+4; off++ {
			if r.Rest(b, off) {
				t.Fatalf("a batch of %d bytes is kept", b.Size())
			}
			if cap(r.scan.buf) > readAhead || r.piece != nil {
				t.Errorf("the reader has %d bytes", cap(r.scan.buf))
			}
			if u := m.Usage().Uses; u[limit.Batches] != 0 || u[limit.Reads] < int64(b.Size()) {
				t.Errorf("while the reader rests, %d bytes are charged, and %d for the cache", u[limit.Batches], u[limit.Reads])
			}
			before := counted.n
			b = mustFindBulky(t, r, off)
			if counted.n != before {
				t.Error("a batch that the cache has is read again")
			}
			if u := m.Usage().Uses; u[limit.Batches] < int64(b.Size()) {
				t.Errorf("%d bytes are charged for a batch of %d from the cache", u[limit.Batches], b.Size())
			}
		}
		r.Rest(b, b.End())
		l.opts.Cache.Drop()
	}
	b := mustFindBulky(t, r, 0)
	l.opts.Cache.Drop()
	r.Rest(b, b.End())
	if u := m.Usage(); u.Used != readAhead {
		t.Errorf("what is read to its end is kept: %d bytes", u.Used)
	}
	r.Release()
	if u := m.Usage(); u.Used != 0 {
		t.Errorf("%d bytes are charged after all", u.Used)
	}
}

func TestLargeBatchWaitsForMemory(t *testing.T) {
	l, m, _ := bulkyLog(t, 8<<20, 4, 5)
	synctest.Test(t, func(t *testing.T) {
		r := l.NewReader().Paid()
		defer r.Release()
		mustFindBulky(t, r, 0) // its memory is no help to others, and it waits for what others have
		others := m.Share(limit.Batches)
		if !others.Try(2<<20 - r.forLarge.Held()) {
			t.Fatal("the budget is not empty")
		}
		taken := int64(others.Held())
		go func() {
			synctest.Wait()
			if got := m.Usage().Uses[limit.Batches]; got != taken {
				t.Errorf("%d bytes are charged while the reader waits, want %d", got, taken)
			}
		}()
		began := time.Now()
		if _, err := r.Batch(4); !errors.Is(err, failure.NoMemory) || time.Since(began) != limit.MemoryWait {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		go func() {
			time.Sleep(limit.MemoryWait / 2)
			others.Close()
		}()
		mustFindBulky(t, r, 4)
	})
}

func TestBatchOverMemoryBudgetIsReadAlone(t *testing.T) {
	l, m, _ := bulkyLog(t, 800<<10, 4, 4)
	r := l.NewReader().Paid()
	defer r.Release()
	b := mustFindBulky(t, r, 0)
	if got := m.Usage().Uses[limit.Batches]; got != 200<<10 {
		t.Errorf("%d bytes are charged, want all that there could be", got)
	}
	r.Rest(b, b.End())
	mustFindBulky(t, r, 5)
	r.Release()
	synctest.Test(t, func(t *testing.T) {
		others := m.Share(limit.Batches)
		if !others.Try(1) {
			t.Fatal("the budget is not empty")
		}
		go func() {
			time.Sleep(limit.MemoryWait / 2)
			others.Close()
		}()
		mustFindBulky(t, r, 0)
	})
}

func TestWithoutMemoryReadAheadShrinks(t *testing.T) {
	const budget = 8 << 20
	counted := vfs.NewMem()
	m := limit.NewMemory(budget)
	l, _ := mustOpen(t, counted, Options{TailBytes: -1, FillBytes: -1, Cache: NewCache(m)})
	defer mustClose(t, l)
	w := mustWriter(t, l, 1)
	for range 2000 {
		mustAppend(t, w, 3)
	}
	mustSync(t, w)
	l.Commit(l.End())
	others := m.Share(limit.ReadAhead)
	if !others.Try(budget / 8) {
		t.Fatal("the budget is not empty")
	}
	r := l.NewReader().Paid()
	defer r.Release()
	for off := seq.Offset(0); off < l.End(); {
		b := mustFind(t, r, off)
		off = b.End()
		if !r.Rest(b, off) {
			t.Fatalf("a batch of %d bytes is not kept", b.Size())
		}
		if cap(r.scan.buf) > poorAhead {
			t.Fatalf("%d bytes are read ahead", cap(r.scan.buf))
		}
	}
}

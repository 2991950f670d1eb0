package commitlog

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// modelBatch is a batch in the model: the log is a slice of them.
type modelBatch struct {
	first, end seq.Offset
	epoch      seq.Epoch
	timestamp  int64
}

// model is a log in its simplest form.
type model struct {
	batches          []modelBatch
	durable          seq.Offset
	committed, start seq.Offset
}

func (m *model) end() seq.Offset {
	if len(m.batches) == 0 {
		return m.start
	}
	return m.batches[len(m.batches)-1].end
}

func (m *model) offsetAt(timestamp int64) seq.Offset {
	for _, b := range m.batches {
		if b.timestamp >= timestamp {
			return min(b.first, m.committed)
		}
	}
	return m.committed
}

// step does one random thing to the log and to the model.
func (m *model) step(t *testing.T, rng *rand.Rand, l *Log, w *Writer) {
	t.Helper()
	switch n := rng.IntN(100); {
	case n < 60:
		count := rng.IntN(5) + 1
		stamp := int64(rng.IntN(1000))
		b, err := w.Append(build(l.End(), count), stamp)
		if err != nil {
			t.Fatal(err)
		}
		m.batches = append(m.batches, modelBatch{b.First(), b.End(), b.Epoch(), stamp})
	case n < 75:
		mustSync(t, w)
		m.durable = m.end()
	case n < 85:
		i := rng.IntN(len(m.batches) + 1)
		if i < len(m.batches) {
			m.committed = max(m.committed, min(m.durable, m.batches[i].end))
			l.Commit(m.committed)
		}
	case n < 90:
		if i := rng.IntN(len(m.batches) + 1); i < len(m.batches) && m.batches[i].first >= m.committed {
			if err := w.TruncateTo(m.batches[i].first); err != nil {
				t.Fatal(err)
			}
			m.batches = m.batches[:i]
			m.durable = m.end()
		}
	case n < 94:
		floor := min(m.end(), seq.Offset(rng.Uint64N(uint64(m.end())*2+1)))
		r := Retention{Floor: floor, MaxBytes: int64(rng.IntN(2)) * 4000, Last: rng.IntN(2) == 0}
		if _, err := l.Retain(r); err != nil {
			t.Fatal(err)
		}
		if l.Start() > m.committed || r.MaxBytes == 0 && l.Start() > max(floor, m.start) {
			t.Fatalf("retention to floor %d moved the start to %d, committed is %d", floor, l.Start(), m.committed)
		}
		if r.Last && m.end() <= min(floor, m.committed, m.durable) && l.Start() != m.end() {
			t.Fatalf("all is finished, and the log is [%d,%d)", l.Start(), l.End())
		}
		m.start = l.Start()
		m.batches = slices.DeleteFunc(m.batches, func(b modelBatch) bool { return b.end <= m.start })
	case n < 97:
		if err := l.Checkpoint(0); err != nil {
			t.Fatal(err)
		}
	default:
		stamp := int64(rng.IntN(1100))
		if got, err := l.OffsetAt(stamp); err != nil || got != m.offsetAt(stamp) {
			t.Fatalf("offset at %d is %d, should be %d: %v", stamp, got, m.offsetAt(stamp), err)
		}
	}
}

func (m *model) check(t *testing.T, l *Log) {
	t.Helper()
	if l.Start() != m.start || l.End() != m.end() {
		t.Fatalf("log is [%d,%d), model [%d,%d)", l.Start(), l.End(), m.start, m.end())
	}
	if n := len(m.batches); n > 0 && l.LastEpoch() != m.batches[n-1].epoch {
		t.Fatalf("last epoch %d, model %d", l.LastEpoch(), m.batches[n-1].epoch)
	}
	mustRead(t, l, m.start, m.end())
	r := l.NewReader()
	defer r.Release()
	var position int64 = -1
	for _, want := range m.batches {
		b, err := r.batch(want.end - 1)
		if err != nil {
			t.Fatal(err)
		}
		if b.First() != want.first || b.End() != want.end || b.Epoch() != want.epoch || b.Timestamp() != want.timestamp {
			t.Fatalf("batch [%d,%d) of epoch %d, model %+v", b.First(), b.End(), b.Epoch(), want)
		}
		if position >= 0 && b.Position() != position {
			t.Fatalf("batch at position %d, the one before ended at %d", b.Position(), position)
		}
		position = b.Position() + int64(b.Size())
		checkPositions(t, l, b)
	}
}

// checkPositions looks up the first and the last byte of each record.
func checkPositions(t *testing.T, l *Log, b Batch) {
	t.Helper()
	r := l.NewReader()
	defer r.Release()
	records := b.Records(b.First())
	for {
		o, raw, ok := records.Next()
		if !ok || o >= l.CommittedEnd() {
			return
		}
		at := records.PositionBefore(b.EndPosition(), len(raw))
		for _, position := range []int64{at, at + int64(RecordBytes(len(raw))) - 1} {
			if got, err := r.OffsetAtPosition(position); err != nil || got != o {
				t.Fatalf("offset at position %d is %d, should be %d: %v", position, got, o, err)
			}
		}
	}
}

func TestRandomHistoriesAgreeWithASlice(t *testing.T) {
	first := testrand.Seed(t)
	for i := range uint64(20) {
		seed := first + i
		rng := newRand(t, seed)
		fsys := vfs.NewCrashable()
		var m model
		o := smallOptions()
		o.FillBytes = int64(rng.IntN(2)*4096) - 1
		for epoch := seq.Epoch(1); epoch <= 6; epoch++ {
			l, rec := mustOpen(t, fsys, o)
			if len(rec.Damaged) > 0 {
				t.Fatalf("seed %d: %+v", seed, rec)
			}
			if l.End() < m.durable || l.CommittedEnd() > m.committed {
				t.Fatalf("seed %d: reopened at %+v, model %+v", seed, l.Stats(), m)
			}
			m.batches = slices.DeleteFunc(m.batches, func(b modelBatch) bool { return b.first >= l.End() })
			m.check(t, l)
			m.durable = m.end()
			m.committed = max(m.start, min(m.committed, m.end()))
			l.Commit(m.committed)
			w := mustWriter(t, l, epoch)
			for range 150 {
				m.step(t, rng, l, w)
			}
			m.check(t, l)
			if rng.IntN(2) == 0 {
				mustClose(t, l)
				m.durable = m.end()
			}
			crashed := fsys.CrashClone(vfs.Crash{Rand: rng, KeepPercent: 50, TornPercent: 30})
			mustClose(t, l)
			fsys = crashed
		}
	}
}

func TestManyReadersReadWhatOneWriterAppends(t *testing.T) {
	o := Options{SegmentBytes: 8 << 10, IndexBytes: 512, TailBytes: 2 << 10, FillBytes: 4 << 10}
	l, _, err := Open(vfs.OS{}, t.TempDir()+"/log", o)
	if err != nil {
		t.Fatal(err)
	}
	const end = 3000
	w := mustWriter(t, l, 1)
	var wg sync.WaitGroup
	for id := range 4 {
		wg.Go(func() {
			r := l.NewReader()
			defer r.Release()
			for off := seq.Offset(0); off < end; {
				b, err := r.Batch(off)
				var below *BelowStartError
				switch {
				case errors.Is(err, errBeyondCommitted):
					if id == 0 {
						r.Release()
					}
					continue
				case errors.As(err, &below):
					off = below.Start
					continue
				case err != nil:
					t.Errorf("reader %d at %d: %v", id, off, err)
					return
				}
				it := b.Records(off)
				for o, p, ok := it.Next(); ok; o, p, ok = it.Next() {
					if string(p) != string(payload(o)) {
						t.Errorf("record %d is wrong", o)
						return
					}
				}
				off = b.End()
			}
		})
	}
	wg.Go(func() {
		for l.CommittedEnd() < end {
			if _, err := l.ReadRaw(l.Start(), 1<<12, nil); err != nil {
				if _, ok := errors.AsType[*BelowStartError](err); !ok {
					t.Error(err)
					return
				}
			}
			if _, err := l.Retain(Retention{Floor: l.CommittedEnd() / 2}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for l.End() < end {
		mustAppend(t, w, 3)
		mustSync(t, w)
		l.Commit(l.DurableEnd())
	}
	wg.Wait()
	mustClose(t, l)
}

func TestFullDiskRefusesAndRecovers(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpPreallocate, vfs.OpWrite, vfs.OpCreate} {
		t.Run(string(kind), func(t *testing.T) {
			mem := vfs.NewCrashable()
			fsys := vfstest.NewFaulty(mem)
			o := smallOptions()
			l, _, err := Open(fsys, testDir, o)
			if err != nil {
				t.Fatal(err)
			}
			w := mustWriter(t, l, 1)
			mustAppend(t, w, 2)
			for range 3 {
				fsys.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
					if op.Kind == kind {
						return vfstest.Fault{Err: syscall.ENOSPC, Short: 20}
					}
					return vfstest.Fault{}
				})
				refused := false
				for range 100 {
					end := l.End()
					_, err := w.Append(build(end, 3), 0)
					if err == nil {
						continue
					}
					refused = true
					if !errors.Is(err, failure.NoSpace) || !errors.Is(err, syscall.ENOSPC) || fate.Of(err) != fate.Refused || l.End() != end {
						t.Fatalf("append on a full disk: %v (%s), end %d", err, fate.Of(err), l.End())
					}
				}
				if !refused {
					t.Fatal("nothing was refused")
				}
				mustRead(t, l, 0, l.End())
				fsys.Decide(nil)
				mustAppend(t, w, 2)
				mustSync(t, w)
			}
			end := l.End()
			l, r := mustOpen(t, mem.CrashClone(vfs.Crash{KeepPercent: 100}), o)
			if !r.Clean() || l.End() != end {
				t.Fatalf("end %d, want %d: %+v", l.End(), end, r)
			}
			mustRead(t, l, 0, end)
		})
	}
}

func TestFailedSyncFailsTheLog(t *testing.T) {
	fsys := vfstest.NewFaulty(vfs.NewMem())
	l, _, err := Open(fsys, testDir, smallOptions())
	if err != nil {
		t.Fatal(err)
	}
	w := mustWriter(t, l, 1)
	mustAppend(t, w, 2)
	mustSync(t, w)
	mustAppend(t, w, 2)
	fsys.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpSyncData {
			return vfstest.Fault{Err: syscall.EIO}
		}
		return vfstest.Fault{}
	})
	if end, err := w.Sync(); end != 2 || !errors.Is(err, ErrFailed) || fate.Of(err) != fate.Uncertain {
		t.Fatalf("sync: %d, %v", end, err)
	}
	fsys.Decide(nil)
	count := fsys.Count()
	if end, err := w.Sync(); end != 2 || !errors.Is(err, ErrFailed) || fate.Of(err) != fate.Uncertain {
		t.Fatalf("sync after a failure: %d, %v", end, err)
	}
	if _, err := w.Append(build(4, 1), 0); !errors.Is(err, ErrFailed) || fate.Of(err) != fate.Refused {
		t.Fatalf("append after a failure: %v", err)
	}
	if fsys.Count() != count {
		t.Fatal("the disk was touched again")
	}
	if l.Failed() == nil {
		t.Fatal("the log does not say that it failed")
	}
	mustRead(t, l, 0, 2)
	if err := l.Close(); !errors.Is(err, ErrFailed) {
		t.Fatalf("close: %v", err)
	}
}

func TestRetentionByAgeAndSize(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), smallOptions())
	w := mustWriter(t, l, 1)
	start := time.Unix(1_700_000_000, 0)
	for i := range 100 {
		b := new(Builder)
		b.Next(100)
		if _, err := w.Append(b, start.Add(time.Duration(i)*time.Second).UnixNano()); err != nil {
			t.Fatal(err)
		}
	}
	mustSync(t, w)
	if n, err := l.Retain(Retention{Floor: 100, MaxBytes: 1}); n != 0 || err != nil {
		t.Fatalf("dropped %d of what is not committed: %v", n, err)
	}
	l.Commit(100)
	if n, err := l.Retain(Retention{Floor: 3}); n != 0 || err != nil {
		t.Fatalf("dropped %d above the floor: %v", n, err)
	}
	reader := l.NewReader()
	defer reader.Release()
	if _, err := reader.Batch(0); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Retain(Retention{Floor: 100, MaxAge: time.Minute, Now: start.Add(80 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	if l.Start() < 10 || l.Start() > 21 {
		t.Fatalf("by age the log starts at %d", l.Start())
	}
	var below *BelowStartError
	if _, err := reader.Batch(1); !errors.As(err, &below) || below.Start != l.Start() {
		t.Fatalf("read below the start: %v", err)
	}
	if _, err := l.Retain(Retention{Floor: 0, MaxBytes: 2500}); err != nil {
		t.Fatal(err)
	}
	if l.Bytes() > 2500 {
		t.Fatalf("by size %d bytes stay", l.Bytes())
	}
	if _, err := l.Retain(Retention{Floor: 100, MaxBytes: 1}); err != nil {
		t.Fatal(err)
	}
	if l.Stats().Segments != 1 {
		t.Fatal("the last segment must stay")
	}
}

func TestLogWithoutDescriptorsRefusesAndRecovers(t *testing.T) {
	fsys := vfstest.NewFaulty(vfs.NewMem())
	l, _, err := Open(fsys, testDir, smallOptions())
	if err != nil {
		t.Fatal(err)
	}
	w := mustWriter(t, l, 1)
	mustAppend(t, w, 2)
	for range 3 {
		fsys.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
			if op.Kind == vfs.OpCreate || op.Kind == vfs.OpOpen {
				return vfstest.Fault{Err: syscall.EMFILE}
			}
			return vfstest.Fault{}
		})
		refused := false
		for range 100 {
			end := l.End()
			if _, err := w.Append(build(end, 3), 0); err == nil {
				continue
			} else if !errors.Is(err, failure.NoFiles) || fate.Of(err) != fate.Refused || l.End() != end {
				t.Fatalf("append without a descriptor: %v (%s), end %d", err, fate.Of(err), l.End())
			}
			refused = true
		}
		if !refused {
			t.Fatal("nothing was refused")
		}
		l.Commit(l.End()) // its note has no descriptor
		if err := l.Checkpoint(0); !vfs.OutOfFiles(err) {
			t.Errorf("checkpoint: %v", err)
		}
		fsys.Decide(nil)
		mustAppend(t, w, 2)
		mustSync(t, w)
		if err := l.Checkpoint(0); err != nil {
			t.Error(err)
		}
	}
	mustRead(t, l, 0, l.End())
	mustClose(t, l)
}

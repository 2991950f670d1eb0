package commitlog

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog/commitnote"
	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// finishedLog returns a log with the given number of batches of one record, all
// durable and committed.
func finishedLog(t *testing.T, fsys vfs.FS, batches int) (*Log, *Writer) {
	t.Helper()
	l, _ := mustOpen(t, fsys, smallOptions())
	w := mustWriter(t, l, 7)
	for range batches {
		mustAppend(t, w, 1)
	}
	mustSync(t, w)
	l.Commit(l.End())
	return l, w
}

func mustRetain(t *testing.T, l *Log, r Retention, want int) {
	t.Helper()
	if n, err := l.Retain(r); n != want || err != nil {
		t.Fatalf("retention dropped %d, want %d: %v", n, want, err)
	}
}

func TestLastSegmentIsDroppedOnceFinished(t *testing.T) {
	for _, batches := range []int{1, 3, 40} {
		fsys := vfs.NewCrashable()
		l, w := finishedLog(t, fsys, batches)
		end, position := l.End(), l.EndPosition()
		reader := l.NewReader()
		if _, err := reader.Batch(0); err != nil {
			t.Fatal(err)
		}
		mustRetain(t, l, Retention{Floor: end, Last: true}, l.Stats().Segments)
		mustRetain(t, l, Retention{Floor: end, Last: true}, 0)
		if l.Start() != end || l.End() != end || l.EndPosition() != position || l.Bytes() != 0 || l.LastEpoch() != 7 {
			t.Fatalf("after it: %+v, position %d, epoch %d", l.Stats(), l.EndPosition(), l.LastEpoch())
		}
		var below *BelowStartError
		if _, err := reader.Batch(0); !errors.As(err, &below) || below.Start != end {
			t.Fatalf("read of what has gone: %v", err)
		}
		if _, err := reader.Batch(end); !errors.Is(err, errBeyondCommitted) {
			t.Fatalf("read at the end: %v", err)
		}
		if raw, err := l.ReadRaw(end, 100, nil); len(raw) > 0 || err != nil {
			t.Fatalf("raw read at the end: %d bytes: %v", len(raw), err)
		}
		if off, err := l.OffsetAt(0); off != end || err != nil {
			t.Fatalf("offset at 0: %d: %v", off, err)
		}
		names, err := fsys.ReadDir(testDir)
		if want := segmenthead.Name(end) + " " + checkpointName + " " + commitnote.Name; strings.Join(names, " ") != want || err != nil {
			t.Fatalf("files %v, want %s: %v", names, want, err)
		}
		info, err := fsys.Stat(segmentPath(testDir, end))
		if err != nil || info.Size() != segmenthead.Bytes {
			t.Fatalf("empty segment has %d bytes: %v", info.Size(), err)
		}
		crashed := fsys.CrashClone(vfs.Crash{})
		goesOn(t, l, w, end, position)
		mustClose(t, l)

		l, rec := mustOpen(t, crashed, smallOptions())
		if !rec.Clean() || l.Start() != end || l.End() != end || l.CommittedEnd() != end || l.LastEpoch() != 7 {
			t.Fatalf("reopened as %+v, epoch %d: %+v", l.Stats(), l.LastEpoch(), rec)
		}
		mustClose(t, l)
		l, rec = mustOpen(t, crashed, smallOptions())
		if !rec.Clean() || l.Start() != end || l.End() != end || l.LastEpoch() != 7 {
			t.Fatalf("reopened after a clean close as %+v, epoch %d: %+v", l.Stats(), l.LastEpoch(), rec)
		}
		goesOn(t, l, mustWriter(t, l, 7), end, position)
	}
}

// goesOn appends to a log that ends at end, and reads it back.
func goesOn(t *testing.T, l *Log, w *Writer, end seq.Offset, position int64) {
	t.Helper()
	if b := mustAppend(t, w, 2); b.First() != end || b.Position() != position {
		t.Fatalf("the next batch begins at %d, position %d, want %d and %d", b.First(), b.Position(), end, position)
	}
	mustAppend(t, w, 2)
	mustSync(t, w)
	l.ReleaseTail()
	mustRead(t, l, l.Start(), end+4)
}

func TestLastSegmentStaysWhileNeeded(t *testing.T) {
	l, w := finishedLog(t, vfs.NewMem(), 3)
	now := time.Unix(1000, 0)
	for name, r := range map[string]Retention{
		"not asked for":         {Floor: 3},
		"above the floor":       {Floor: 2, Last: true},
		"above the floor, size": {Floor: 2, Last: true, MaxBytes: 1},
		"too young":             {Floor: 3, Last: true, MaxAge: 2 * time.Hour, Now: now},
	} {
		if n, err := l.Retain(r); n != 0 || err != nil {
			t.Errorf("%s: dropped %d: %v", name, n, err)
		}
	}
	mustAppend(t, w, 1)
	mustRetain(t, l, Retention{Floor: 4, Last: true}, 0) // not durable
	mustSync(t, w)
	mustRetain(t, l, Retention{Floor: 4, Last: true}, 0) // not committed
	l.Commit(4)
	mustRetain(t, l, Retention{Floor: 4, Last: true, MaxAge: time.Minute, Now: now}, 1)
}

func TestFullDiskRecoversOnceAllIsFinished(t *testing.T) {
	mem := vfs.NewCrashable()
	fsys := vfstest.NewFaulty(mem)
	l, w := finishedLog(t, fsys, 40)
	segments := l.Stats().Segments
	// The disk is so full that the checkpoint has no room either, until an index is
	// removed.
	full := true
	fsys.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpRemove && strings.HasSuffix(op.Name, indexSuffix) {
			full = false
		}
		if full && op.Kind == vfs.OpCreate && strings.HasSuffix(op.Name, vfs.TempSuffix) {
			return vfstest.Fault{Err: syscall.ENOSPC}
		}
		return vfstest.Fault{}
	})
	mustRetain(t, l, Retention{Floor: l.End(), Last: true}, segments)
	fsys.Decide(nil)
	goesOn(t, l, w, 40, l.EndPosition())
}

// Without room for the segment that would replace the last one, the others go first: they make the room.
func TestFullDiskDeletesTheOtherSegmentsFirst(t *testing.T) {
	fsys := vfstest.NewFaulty(vfs.NewCrashable())
	l, w := finishedLog(t, fsys, 40)
	segments := l.Stats().Segments
	full := true
	fsys.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpRemove && strings.HasSuffix(op.Name, segmenthead.Suffix) {
			full = false
		}
		if full && op.Kind == vfs.OpCreate && strings.HasSuffix(op.Name, segmenthead.Suffix) {
			return vfstest.Fault{Err: syscall.ENOSPC}
		}
		return vfstest.Fault{}
	})
	mustRetain(t, l, Retention{Floor: l.End(), Last: true}, segments-1)
	mustRetain(t, l, Retention{Floor: l.End(), Last: true}, 1)
	fsys.Decide(nil)
	goesOn(t, l, w, 40, l.EndPosition())
}

func TestNoRoomForAnEmptySegmentChangesNothing(t *testing.T) {
	mem := vfs.NewCrashable()
	fsys := vfstest.NewFaulty(mem)
	l, w := finishedLog(t, fsys, 3)
	fsys.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpCreate {
			return vfstest.Fault{Err: syscall.ENOSPC}
		}
		return vfstest.Fault{}
	})
	n, err := l.Retain(Retention{Floor: 3, Last: true})
	if n != 0 || !errors.Is(err, failure.NoSpace) || fate.Of(err) != fate.Refused || l.Start() != 0 || l.Failed() != nil {
		t.Fatalf("dropped %d of %+v: %v", n, l.Stats(), err)
	}
	fsys.Decide(nil)
	mustRead(t, l, 0, 3)
	goesOn(t, l, w, 3, l.EndPosition())
}

// A roll that created its segment and then had no room for the batch leaves the
// previous segment open: its reserved space must be freed nevertheless.
func TestSegmentLeftOpenByFullDiskIsClosedBeforeDeletion(t *testing.T) {
	mem := vfs.NewCrashable()
	fsys := vfstest.NewFaulty(mem)
	l, w := finishedLog(t, fsys, 3)
	fsys.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpWrite && op.Off > 0 {
			return vfstest.Fault{Err: syscall.ENOSPC}
		}
		return vfstest.Fault{}
	})
	big := new(Builder)
	big.Next(int(smallOptions().SegmentBytes))
	if _, err := w.Append(big, 0); !errors.Is(err, failure.NoSpace) {
		t.Fatal(err)
	}
	fsys.Decide(nil)
	if l.Stats().Segments != 2 {
		t.Fatalf("%d segments", l.Stats().Segments)
	}
	mustRetain(t, l, Retention{Floor: 3, Last: true}, 1)
	goesOn(t, l, w, 3, l.EndPosition())
	mustClose(t, l)
	names, err := mem.ReadDir(testDir)
	if err != nil || len(names) != 4 {
		t.Fatalf("files: %v: %v", names, err)
	}
}

func TestAppendsContinueWhileLastSegmentIsRetired(t *testing.T) {
	o := Options{SegmentBytes: 8 << 10, TailBytes: 2 << 10, FillBytes: 4 << 10}
	l, _, err := Open(vfs.OS{}, t.TempDir()+"/log", o)
	if err != nil {
		t.Fatal(err)
	}
	w := mustWriter(t, l, 1)
	rng := testrand.New(t)
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := l.Retain(Retention{Floor: l.CommittedEnd(), Last: true}); err != nil {
				done <- err
				return
			}
		}
	}()
	for range 500 {
		mustAppend(t, w, rng.IntN(5)+1)
		if _, err := w.Sync(); err != nil {
			t.Fatal(err)
		}
		l.Commit(l.DurableEnd())
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	mustRead(t, l, l.Start(), l.End())
	mustClose(t, l)
	l, rec, err := Open(vfs.OS{}, l.dir, o)
	if err != nil || !rec.Clean() {
		t.Fatalf("%+v: %v", rec, err)
	}
	mustRead(t, l, l.Start(), l.End())
	mustClose(t, l)
}

func TestCrashStatesOfARetentionOfEverything(t *testing.T) {
	emptied := checkpoint{start: 10, durable: 10, durablePos: 1160, committed: 10, epoch: 1, before: 1}
	for name, c := range map[string]struct {
		make  func(s *state)
		start seq.Offset
	}{
		"empty segment made, nothing noted": {func(s *state) {
			s.create(segmenthead.Name(10), segmenthead.Encode(10, 1160))
		}, 0},
		"empty segment half made": {func(s *state) { s.create(segmenthead.Name(10), nil) }, 0},
		"noted, nothing removed": {func(s *state) {
			s.create(segmenthead.Name(10), segmenthead.Encode(10, 1160))
			s.create(checkpointName, emptied.encode())
		}, 10},
		"noted, an index removed": {func(s *state) {
			s.create(segmenthead.Name(10), segmenthead.Encode(10, 1160))
			s.create(checkpointName, emptied.encode())
			s.remove(idx0)
		}, 10},
		"noted, only the middle removed": {func(s *state) {
			s.create(segmenthead.Name(10), segmenthead.Encode(10, 1160))
			s.create(checkpointName, emptied.encode())
			s.remove(segmenthead.Name(4))
		}, 10},
		"noted, removed, checkpoint lost": {func(s *state) {
			s.create(segmenthead.Name(10), segmenthead.Encode(10, 1160))
			s.remove(checkpointName)
			s.remove(seg0)
			s.remove(segmenthead.Name(4))
			s.remove(segmenthead.Name(8))
		}, 10},
		"noted, empty segment lost": {func(s *state) { s.create(checkpointName, emptied.encode()) }, 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := threeSegments(t)
			c.make(s)
			l, rec := mustOpen(t, s.fsys, smallOptions())
			if len(rec.Damaged) > 0 || l.Start() != c.start || l.End() != 10 || c.start == 10 && l.EndPosition() != 1160 {
				t.Fatalf("opened as %+v, position %d: %+v", l.Stats(), l.EndPosition(), rec)
			}
			w := mustWriter(t, l, 2)
			mustAppend(t, w, 2)
			mustSync(t, w)
			mustClose(t, l)
			l, rec = mustOpen(t, s.fsys, smallOptions())
			if !rec.Clean() || l.Start() != c.start || l.End() != 12 {
				t.Fatalf("opened again as %+v: %+v", l.Stats(), rec)
			}
			mustRead(t, l, 10, 12)
		})
	}
}

// A leader with a slow wall clock stamps batches that look old at once. Batches
// that this process appended count as recent.
func TestWrongClockTimestampsAgeNothing(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), smallOptions())
	defer l.Close()
	w := mustWriter(t, l, 1)
	for range 40 {
		mustAppend(t, w, 3) // stamped with 1970
	}
	mustSync(t, w)
	l.Commit(l.End())
	now := time.Now()
	ask := Retention{Floor: l.End(), MaxAge: time.Hour, Now: now, Moment: now}
	if n, err := l.Retain(ask); n != 0 || err != nil {
		t.Errorf("%d segments were dropped that were added just now, %v", n, err)
	}
	ask.Moment = now.Add(time.Hour + time.Second)
	if n, err := l.Retain(ask); n == 0 || err != nil {
		t.Errorf("%d segments were dropped an hour later, %v", n, err)
	}
}

// TestLogBoundedBelowASegmentStaysBounded: only whole segments are removed, so
// there must be several below the bound.
func TestLogBoundedBelowASegmentStaysBounded(t *testing.T) {
	const bound = 1 << 20
	l, _ := mustOpen(t, vfs.NewMem(), Options{SegmentBytes: 64 << 20})
	w := mustWriter(t, l, 7)
	for appended := int64(0); appended < 4*bound; {
		before := l.EndPosition()
		mustAppend(t, w, 500)
		mustSync(t, w)
		l.Commit(l.End())
		appended += l.EndPosition() - before
		if _, err := l.Retain(Retention{MaxBytes: bound}); err != nil {
			t.Fatal(err)
		}
		if l.Bytes() > bound+bound/boundParts {
			t.Fatalf("%d bytes are kept after %d, in %d segments; the bound is %d", l.Bytes(), appended, l.Stats().Segments, bound)
		}
	}
	if l.Bytes() < bound/2 || l.Start() == 0 {
		t.Errorf("%d bytes from %d on are kept; the bound is %d", l.Bytes(), l.Start(), bound)
	}
	if err := checkRecords(l, l.Start(), l.End()); err != nil {
		t.Error(err)
	}
}

// TestExcessIsReported: OnExcess is called once for each segment that begins while the log is too large.
func TestExcessIsReported(t *testing.T) {
	const bound = 1 << 20
	told := 0
	l, _ := mustOpen(t, vfs.NewMem(), Options{SegmentBytes: 64 << 20, OnExcess: func() { told++ }})
	w := mustWriter(t, l, 7)
	begun := func() int { return l.Stats().Segments }
	for l.Bytes() < 2*bound { // no bound is known
		mustAppend(t, w, 500)
	}
	if told != 0 {
		t.Errorf("told %d times without a bound", told)
	}
	mustSync(t, w)
	l.Commit(l.End())
	if _, err := l.Retain(Retention{MaxBytes: bound}); err != nil {
		t.Fatal(err)
	}
	for range 4 * boundParts {
		was, at := begun(), told
		for begun() == was {
			mustAppend(t, w, 500)
		}
		if over := l.Bytes() > bound; over && told != at+1 && was > 1 {
			t.Fatalf("told %d times when segment %d begins at %d bytes", told-at, begun(), l.Bytes())
		}
	}
	if told < 3*boundParts-1 {
		t.Errorf("told %d times while %d segments began", told, 4*boundParts)
	}
	mustSync(t, w)
	l.Commit(l.End())
	if _, err := l.Retain(Retention{MaxBytes: bound}); err != nil || l.Bytes() > bound {
		t.Fatalf("%d bytes, %v", l.Bytes(), err)
	}
	told = 0
	mustAppend(t, w, 500)
	if told != 0 {
		t.Errorf("told %d times within the bound", told)
	}
}

// TestUnreadableSegmentAges: a segment of which no batch can be read has no timestamp. It is dropped
// when the one after it is old enough, and does not keep the log forever.
func TestUnreadableSegmentAges(t *testing.T) {
	m := vfs.NewMem()
	l, _ := finishedLog(t, m, 40)
	first := l.view()[0]
	mustClose(t, l)
	f, err := m.OpenReadWrite(first.path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, first.size.Load()-segmenthead.Bytes), segmenthead.Bytes); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), m.Remove(first.indexPath())); err != nil {
		t.Fatal(err)
	}
	l, r := mustOpen(t, m, smallOptions())
	if len(r.Damaged) == 0 {
		t.Fatal("the damage was not found")
	}
	day := Retention{Floor: l.End(), MaxAge: 24 * time.Hour}
	day.Now = time.Unix(0, l.view()[1].maxTime.Load()).Add(day.MaxAge - 1)
	mustRetain(t, l, day, 0)
	day.Now = day.Now.Add(1)
	mustRetain(t, l, day, 2)
}

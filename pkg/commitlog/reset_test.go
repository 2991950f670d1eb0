package commitlog

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog/commitnote"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// checkOrigin compares an empty log with the origin of its reset.
func checkOrigin(l *Log, o Origin) error {
	if l.Start() != o.Start || l.End() != o.Start || l.DurableEnd() != o.Start || l.CommittedEnd() != o.Start ||
		l.EndPosition() != o.Position || l.Bytes() != 0 || l.LastEpoch() != o.Before {
		return fmt.Errorf("log is %+v, position %d, epoch %d, want %+v", l.Stats(), l.EndPosition(), l.LastEpoch(), o)
	}
	return nil
}

func TestResetLogContinues(t *testing.T) {
	for _, c := range []struct {
		name      string
		batches   int
		committed seq.Offset
		origin    Origin
	}{
		{"a log that holds nothing", 0, 0, Origin{Start: 1000, Position: 77_000, Before: 3}},
		{"beyond the end", 40, 20, Origin{Start: 1000, Position: 77_000, Before: 3}},
		{"at the end", 40, 40, Origin{Start: 40, Position: 4000, Before: 7}},
		{"at the committed end", 40, 17, Origin{Start: 17, Position: 900, Before: 2}},
		{"inside, at a segment", 40, 0, Origin{Start: 0, Position: 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := vfs.NewCrashable()
			l, _ := mustOpen(t, fsys, smallOptions())
			w := mustWriter(t, l, 7)
			for range c.batches {
				mustAppend(t, w, 1)
			}
			l.Commit(c.committed)
			reader := l.NewReader()
			if c.batches > 0 {
				if _, err := reader.batch(0); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Reset(c.origin); err != nil {
				t.Fatal(err)
			}
			if err := checkOrigin(l, c.origin); err != nil {
				t.Fatal(err)
			}
			var below *BelowStartError
			if _, err := reader.batch(0); c.origin.Start > 0 && !errors.As(err, &below) {
				t.Fatalf("read of what has gone: %v", err)
			}
			names, err := fsys.ReadDir(testDir)
			want := []string{checkpointName}
			if c.origin.Start > 0 {
				want = append(want, commitnote.Name)
			}
			if diff := cmp.Diff(want, names); diff != "" || err != nil {
				t.Fatalf("%v %s", err, diff)
			}
			crashed := fsys.CrashClone(vfs.Crash{})
			goesOn(t, l, w, c.origin.Start, c.origin.Position)
			mustClose(t, l)

			l, rec := mustOpen(t, crashed, smallOptions())
			if err := checkOrigin(l, c.origin); err != nil || !rec.Clean() {
				t.Fatalf("reopened: %v: %+v", err, rec)
			}
			goesOn(t, l, mustWriter(t, l, 7), c.origin.Start, c.origin.Position)
			mustClose(t, l)
		})
	}
}

func TestResetRefusesInvalidOffsets(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), smallOptions())
	old := mustWriter(t, l, 2)
	w := mustWriter(t, l, 3)
	mustAppend(t, w, 4)
	mustAppend(t, w, 4)
	l.Commit(4)
	for _, c := range []struct {
		w      *Writer
		origin Origin
		want   error
	}{
		{w, Origin{Start: 3}, ErrBelowCommitted},
		{old, Origin{Start: 100}, ErrRevoked},
		{w, Origin{Start: 100, Before: 4}, errStaleEpoch},
		{w, Origin{Start: 100, Position: -1}, errInvalidOrigin},
		{w, Origin{Start: seq.MaxOffset + 1}, errInvalidOrigin},
	} {
		if err := c.w.Reset(c.origin); !errors.Is(err, c.want) || fate.Of(err) != fate.Refused {
			t.Errorf("reset to %+v: %v", c.origin, err)
		}
	}
	mustRead(t, l, 0, 8)
	mustClose(t, l)
	if err := w.Reset(Origin{Start: 100}); !errors.Is(err, ErrClosed) {
		t.Errorf("reset of a closed log: %v", err)
	}
}

func TestResetOnAFullDiskIsRefused(t *testing.T) {
	fsys := vfstest.NewFaulty(vfs.NewMem())
	l, w := finishedLog(t, fsys, 40)
	fsys.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpCreate {
			return vfstest.Fault{Err: syscall.ENOSPC}
		}
		return vfstest.Fault{}
	})
	if err := w.Reset(Origin{Start: 100}); !errors.Is(err, failure.NoSpace) || fate.Of(err) != fate.Refused {
		t.Fatal(err)
	}
	fsys.Decide(nil)
	mustRead(t, l, 0, 40)
	goesOn(t, l, w, 40, l.EndPosition())
}

// TestCrashInTruncationIsAtomic crashes after every operation of a
// truncation over several segments, and of resets.
func TestCrashInTruncationIsAtomic(t *testing.T) {
	const end, committed = 60, 15
	rng := testrand.New(t)
	for name, cut := range map[string]struct {
		do     func(w *Writer) error
		origin Origin // of a reset
	}{
		"truncation":   {do: func(w *Writer) error { return w.TruncateTo(20) }},
		"reset inside": {origin: Origin{Start: 20, Position: 333, Before: 5}},
		"reset beyond": {origin: Origin{Start: 500, Position: 333, Before: 5}},
	} {
		if cut.do == nil {
			cut.do = func(w *Writer) error { return w.Reset(cut.origin) }
		}
		for _, alternating := range []bool{false, true} {
			fsys := vfs.NewCrashable()
			o := smallOptions()
			o.Alternating = alternating
			l, _ := mustOpen(t, fsys, o)
			w := mustWriter(t, l, 5)
			for l.End() < end {
				mustAppend(t, w, 2)
				mustSync(t, w)
			}
			l.Commit(committed)
			check := func(crashed *vfs.Mem) {
				l, rec, err := Open(crashed, testDir, o)
				if err != nil || len(rec.Damaged) > 0 {
					t.Fatalf("%s, alternating=%t: %+v: %v", name, alternating, rec, err)
				}
				if l.Start() > 0 {
					err = checkOrigin(l, cut.origin)
				} else {
					err = checkRecords(l, 0, l.End())
				}
				if err != nil || l.End() < 20 && l.End() < committed || l.Start() == 0 && l.End() > end {
					t.Fatalf("%s, alternating=%t: %+v: %v", name, alternating, l.Stats(), err)
				}
				last := l.End()
				mustAppend(t, mustWriter(t, l, 6), 2)
				mustClose(t, l)
				l, rec = mustOpen(t, crashed, o)
				if !rec.Clean() || l.End() != last+2 {
					t.Fatalf("%s, alternating=%t: %+v", name, alternating, rec)
				}
			}
			fsys.Observe(func(vfs.Op) {
				for keep := range 5 {
					check(fsys.CrashClone(vfs.Crash{Rand: rng, KeepPercent: keep * 25, TornPercent: 30}))
				}
			})
			if err := cut.do(w); err != nil {
				t.Fatal(err)
			}
			fsys.Observe(nil)
		}
	}
}

func TestErrorInResetIsReported(t *testing.T) {
	errDisk := errors.New("disk broke")
	origin := Origin{Start: 20, Position: 333, Before: 5}
	for index := int64(0); ; index++ {
		mem := vfs.NewCrashable()
		fsys := vfstest.NewFaulty(mem)
		l, _ := mustOpen(t, fsys, smallOptions())
		w := mustWriter(t, l, 5)
		for l.End() < 60 {
			mustAppend(t, w, 2)
		}
		mustSync(t, w)
		from, hit := fsys.Count(), false
		fsys.Decide(func(i int64, _ vfs.Op) vfstest.Fault {
			if i != from+index {
				return vfstest.Fault{}
			}
			hit = true
			return vfstest.Fault{Err: errDisk}
		})
		err := w.Reset(origin)
		if !hit {
			if err != nil || index < 5 {
				t.Fatalf("%d operations: %v", index, err)
			}
			return
		}
		if !errors.Is(err, errDisk) && !errors.Is(l.Failed(), errDisk) {
			t.Fatalf("error at operation %d: %v", index, err)
		}
		if fate.Of(err) == fate.Refused {
			mustRead(t, l, 0, 60)
		} else if l.Failed() == nil {
			if err := checkOrigin(l, origin); err != nil {
				t.Fatalf("error at operation %d: %v", index, err)
			}
		}
		for _, keep := range []int{0, 100} {
			l, rec := mustOpen(t, mem.CrashClone(vfs.Crash{KeepPercent: keep}), smallOptions())
			if len(rec.Damaged) > 0 {
				t.Fatalf("error at operation %d: %+v", index, rec)
			}
			mustRead(t, l, l.Start(), l.End())
		}
	}
}

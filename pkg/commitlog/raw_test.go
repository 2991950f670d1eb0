package commitlog

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// leaderBytes returns the given number of batches of two records each, in their
// form on disk.
func leaderBytes(t *testing.T, batches int) []byte {
	t.Helper()
	l, _ := mustOpen(t, vfs.NewMem(), smallOptions())
	w := mustWriter(t, l, 3)
	for i := range batches {
		if i == batches/2 {
			w = mustWriter(t, l, 5)
		}
		mustAppend(t, w, 2)
	}
	raw, err := l.ReadRaw(0, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestAppendRawsWritesOncePerSegment(t *testing.T) {
	raw := leaderBytes(t, 30)
	for _, segment := range []int64{1024, 1 << 20} {
		fsys := vfs.NewCrashable()
		o := smallOptions()
		o.SegmentBytes = segment
		l, _ := mustOpen(t, fsys, o)
		w := mustWriter(t, l, 5)
		added, err := w.AppendRaws(raw)
		if err != nil || len(added) != 30 || l.End() != 60 || l.LastEpoch() != 5 {
			t.Fatalf("%d batches, log %+v: %v", len(added), l.Stats(), err)
		}
		position := int64(0)
		for i, b := range added {
			if b.First() != seq.Offset(2*i) || b.Position() != position {
				t.Fatalf("batch %d begins at %d, position %d, want %d", i, b.First(), b.Position(), position)
			}
			position += int64(b.Size())
		}
		writes := 0
		for _, op := range fsys.Trace() {
			if op.Kind == vfs.OpWrite {
				writes++
			}
		}
		if want := 2 * l.Stats().Segments; writes != want { // a header and a run each
			t.Fatalf("%d writes, want %d", writes, want)
		}
		mustSync(t, w)
		l.ReleaseTail()
		mustRead(t, l, 0, 60)
		again, rec := mustOpen(t, fsys.CrashClone(vfs.Crash{}), o)
		if !rec.Clean() || again.End() != 60 {
			t.Fatalf("%+v: %+v", again.Stats(), rec)
		}
	}
}

func TestAppendRawsChecksAllBeforeWriting(t *testing.T) {
	raw := leaderBytes(t, 4)
	first, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	damaged := slices.Clone(raw)
	damaged[len(damaged)-20] ^= 1
	fsys := vfs.NewCrashable()
	l, _ := mustOpen(t, fsys, smallOptions())
	low, high := mustWriter(t, l, 4), (*Writer)(nil)
	for _, c := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"nothing", nil, errEmptyBatch},
		{"the last damaged", damaged, ErrInvalidBatch},
		{"the last cut short", raw[:len(raw)-8], ErrInvalidBatch},
		{"bytes behind", append(slices.Clone(raw), 0, 0, 0, 0, 0, 0, 0, 0), ErrInvalidBatch},
		{"twice the same", append(slices.Clone(raw), raw...), ErrNotContiguous},
		{"ahead of the log", raw[first.Size():], ErrNotContiguous},
		{"the last of an epoch above the writer's", raw, errStaleEpoch},
	} {
		if _, err := low.AppendRaws(c.raw); !errors.Is(err, c.want) || fate.Of(err) != fate.Refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if l.End() != 0 {
		t.Fatalf("log ends at %d", l.End())
	}
	high = mustWriter(t, l, 5)
	if _, err := low.AppendRaws(raw); !errors.Is(err, ErrRevoked) {
		t.Errorf("by a revoked writer: %v", err)
	}
	if _, err := high.AppendRaws(raw); err != nil {
		t.Fatal(err)
	}
	if _, err := high.AppendRaws(raw); !errors.Is(err, ErrNotContiguous) {
		t.Errorf("again: %v", err)
	}
	mustRead(t, l, 0, 8)
}

func TestAppendRawsOnFullDiskReportsProgress(t *testing.T) {
	raw := leaderBytes(t, 30)
	fsys := vfstest.NewFaulty(vfs.NewMem())
	l, _ := mustOpen(t, fsys, smallOptions())
	w := mustWriter(t, l, 5)
	created := 0
	fsys.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if op.Kind == vfs.OpCreate {
			if created++; created > 2 {
				return vfstest.Fault{Err: syscall.ENOSPC}
			}
		}
		return vfstest.Fault{}
	})
	added, err := w.AppendRaws(raw)
	if !errors.Is(err, failure.NoSpace) || len(added) == 0 || added[len(added)-1].End() != l.End() || l.Failed() != nil {
		t.Fatalf("%d batches, log %+v: %v", len(added), l.Stats(), err)
	}
	fsys.Decide(nil)
	rest := raw
	for _, b := range added {
		rest = rest[b.Size():]
	}
	if _, err := w.AppendRaws(rest); err != nil {
		t.Fatal(err)
	}
	mustSync(t, w)
	mustRead(t, l, 0, 60)
}

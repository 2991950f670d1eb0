package commitlog

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/vfstest"
	"github.com/brokerd/brokerd/pkg/commitlog/commitnote"
	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// killed makes a log of ten short batches, as after a kill. By the checkpoint, those
// below noted are durable.
func killed(t *testing.T, o Options, noted seq.Offset) *vfs.Mem {
	t.Helper()
	fsys := vfs.NewCrashable()
	l, _ := mustOpen(t, fsys, o)
	w := mustWriter(t, l, 1)
	for l.End() < 10 {
		mustAppend(t, w, 1)
		mustSync(t, w)
		l.Commit(l.End())
		if l.End() == noted {
			if err := l.Checkpoint(0); err != nil {
				t.Fatal(err)
			}
		}
	}
	return fsys.CrashClone(vfs.Crash{KeepPercent: 100})
}

// openCounting opens a log and counts the changes and syncs of files.
func openCounting(t *testing.T, fsys vfs.FS, o Options) (*Log, map[vfs.OpKind]int) {
	t.Helper()
	changing := []vfs.OpKind{
		vfs.OpCreate, vfs.OpRemove, vfs.OpRename, vfs.OpWrite, vfs.OpTruncate, vfs.OpSyncData, vfs.OpSync, vfs.OpSyncDir,
	}
	count := map[vfs.OpKind]int{}
	counted := vfstest.NewFaulty(fsys)
	counted.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		if slices.Contains(changing, op.Kind) {
			count[op.Kind]++
		}
		return vfstest.Fault{}
	})
	l, _ := mustOpen(t, counted, o)
	return l, count
}

func TestShortLogOpensCheaplyAfterKill(t *testing.T) {
	for name, c := range map[string]struct {
		noted seq.Offset
		want  map[vfs.OpKind]int
	}{
		"all is noted as durable": {10, map[vfs.OpKind]int{}},
		"a part is":               {9, map[vfs.OpKind]int{vfs.OpSyncData: 1, vfs.OpSyncDir: 1}},
		"nothing is":              {0, map[vfs.OpKind]int{vfs.OpSyncData: 1, vfs.OpSyncDir: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := killed(t, Options{}, c.noted)
			names, err := fsys.ReadDir(testDir)
			if err != nil {
				t.Fatal(err)
			}
			l, count := openCounting(t, fsys.CrashClone(vfs.Crash{}), Options{OnDisk: true, Names: names})
			if len(count) != 0 || l.DurableEnd() != 10 {
				t.Fatalf("where all is on disk: %v, durable to %d", count, l.DurableEnd())
			}
			l, count = openCounting(t, fsys, Options{})
			if diff := cmp.Diff(c.want, count); diff != "" {
				t.Fatal(diff)
			}
			mustRead(t, l, 0, 10)
			if l.DurableEnd() != 10 {
				t.Fatalf("durable to %d", l.DurableEnd())
			}
			lost, r := mustOpen(t, fsys.CrashClone(vfs.Crash{}), Options{})
			if lost.End() != 10 || !r.Clean() {
				t.Fatalf("after a loss of power: to %d, %+v", lost.End(), r)
			}
		})
	}
}

// TestDataLeftByKillIsSyncedBeforeItCountsAsDurable kills a process that has synced only a
// part.
func TestDataLeftByKillIsSyncedBeforeItCountsAsDurable(t *testing.T) {
	fsys := vfs.NewCrashable()
	l, _ := mustOpen(t, fsys, Options{})
	w := mustWriter(t, l, 1)
	mustAppend(t, w, 1)
	mustSync(t, w)
	l.Commit(1)
	if err := l.Checkpoint(0); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w, 1)
	l, _ = mustOpen(t, fsys, Options{})
	if l.DurableEnd() != 2 {
		t.Fatalf("durable to %d", l.DurableEnd())
	}
	l, r := mustOpen(t, fsys.CrashClone(vfs.Crash{}), Options{})
	if l.End() != 2 || !r.Clean() {
		t.Fatalf("to %d, %+v", l.End(), r)
	}
}

// TestShortLogIsCompleted closes it, or makes it roll, with and without
// an append in between.
func TestShortLogIsCompleted(t *testing.T) {
	small := Options{SegmentBytes: 4096, FillBytes: -1}
	for name, appends := range map[string]int{"nothing is appended": 0, "something is": 1, "it rolls": 60} {
		t.Run(name, func(t *testing.T) {
			fsys := killed(t, Options{}, 10)
			l, _ := mustOpen(t, fsys, small)
			w := mustWriter(t, l, 2)
			for range appends {
				mustAppend(t, w, 1)
			}
			mustClose(t, l)
			l, r := mustOpen(t, fsys, small)
			if r.scanned != 0 || len(r.Rebuilt) != 0 || !r.Clean() {
				t.Fatalf("%+v", r)
			}
			mustRead(t, l, 0, seq.Offset(10+appends))
		})
	}
}

// TestShortLogThatFillsAtOnceIsCompleted opens it with a smaller segment size.
func TestShortLogThatFillsAtOnceIsCompleted(t *testing.T) {
	fsys := killed(t, Options{}, 10)
	tiny := Options{SegmentBytes: 512, FillBytes: -1}
	l, _ := mustOpen(t, fsys, tiny)
	w := mustWriter(t, l, 2)
	mustAppend(t, w, 1)
	mustSync(t, w)
	l, r := mustOpen(t, fsys, tiny) // as if killed
	if len(r.Rebuilt) != 1 || !r.Clean() {
		t.Fatalf("%+v", r)
	}
	mustRead(t, l, 0, 11)
}

// TestShortLogReleasesSpaceBeforeRetirement has room for a new segment only in the
// reserved space of the old one.
func TestShortLogReleasesSpaceBeforeRetirement(t *testing.T) {
	fsys := killed(t, Options{}, 10)
	l, _ := mustOpen(t, fsys, Options{})
	trimmed := false
	counted := vfstest.NewFaulty(fsys)
	l.fs = counted
	counted.Decide(func(_ int64, op vfs.Op) vfstest.Fault {
		trimmed = trimmed || op.Kind == vfs.OpTruncate
		if op.Kind == vfs.OpCreate && !trimmed {
			return vfstest.Fault{Err: syscall.ENOSPC}
		}
		return vfstest.Fault{}
	})
	if n, err := l.Retain(Retention{Floor: 10, Last: true}); n != 1 || err != nil {
		t.Fatalf("%d segments went: %v", n, err)
	}
	mustClose(t, l)
}

// TestZerosBeforeLaterSegmentAreDamage replaces the last batches of a segment
// with zeros. Only the batches of the next segment show that they were committed.
func TestZerosBeforeLaterSegmentAreDamage(t *testing.T) {
	o := Options{SegmentBytes: 4096, FillBytes: -1}
	fsys := vfs.NewCrashable()
	l, _ := mustOpen(t, fsys, o)
	w := mustWriter(t, l, 1)
	for len(l.view()) < 2 || l.End() < l.view()[1].base+2 {
		mustAppend(t, w, 1)
		mustSync(t, w)
		l.Commit(l.End())
	}
	first, end := l.view()[0], l.End()
	fsys = fsys.CrashClone(vfs.Crash{KeepPercent: 100})
	for _, name := range []string{checkpointName, commitnote.Name, "00000000000000000000" + indexSuffix} {
		if err := fsys.Remove(filepath.Join(l.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	f, err := fsys.OpenReadWrite(first.path)
	if err != nil {
		t.Fatal(err)
	}
	content, err := vfs.ReadFile(fsys, first.path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	at := segmenthead.Bytes
	for range 10 {
		n, err := BatchSize(content[at:])
		if err != nil {
			t.Fatal(err)
		}
		at += n
	}
	if _, err := f.WriteAt(make([]byte, len(content)-at), int64(at)); err != nil {
		t.Fatal(err)
	}
	again, r := mustOpen(t, fsys, o)
	if len(r.Damaged) != 1 || r.Damaged[0].From != 10 || r.Damaged[0].Next != l.view()[1].base || again.End() != end {
		t.Errorf("log to %d of %d: %+v", again.End(), end, r)
	}
}

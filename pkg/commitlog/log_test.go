package commitlog

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestNewLogCreatesNoFiles(t *testing.T) {
	fsys := vfs.NewCrashable()
	l, r := mustOpen(t, fsys, Options{})
	if !r.Clean() || l.End() != 0 || l.Start() != 0 || l.CommittedEnd() != 0 {
		t.Fatalf("new log is not empty: %+v", l.Stats())
	}
	if err := l.Checkpoint(0); err != nil {
		t.Fatal(err)
	}
	mustWriter(t, l, 1)
	mustClose(t, l)
	if ops := fsys.Trace(); len(ops) != 0 {
		t.Fatalf("operations: %v", ops)
	}
}

func TestRecordsAreReadAcrossSegmentsAndRestarts(t *testing.T) {
	fsys := vfs.NewMem()
	l, _ := mustOpen(t, fsys, smallOptions())
	w := mustWriter(t, l, 1)
	for i := range 100 {
		mustAppend(t, w, i%7+1)
		if i%3 == 0 {
			mustSync(t, w)
		}
	}
	mustSync(t, w)
	end := l.End()
	l.Commit(end)
	if n := l.Stats().Segments; n < 10 {
		t.Fatalf("%d segments", n)
	}
	mustRead(t, l, 0, end)
	mustClose(t, l)

	l, r := mustOpen(t, fsys, smallOptions())
	if !r.Clean() || r.scanned != 0 {
		t.Fatalf("recovery after a clean close: %+v", r)
	}
	if l.End() != end || l.DurableEnd() != end || l.CommittedEnd() != end {
		t.Fatalf("reopened at %+v, want end %d", l.Stats(), end)
	}
	mustRead(t, l, 0, end)
	w = mustWriter(t, l, 2)
	mustAppend(t, w, 3)
	mustSync(t, w)
	mustRead(t, l, 0, end+3)
	want := []EpochStart{{1, 0}, {2, end}}
	if diff := cmp.Diff(want, l.Epochs()); diff != "" {
		t.Fatal(diff)
	}
	mustClose(t, l)
}

func TestNewWriterRevokesPreviousOne(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), smallOptions())
	old := mustWriter(t, l, 3)
	mustAppend(t, old, 1)
	same := mustWriter(t, l, 3)
	if _, err := old.Append(build(1, 1), 0); !errors.Is(err, ErrRevoked) {
		t.Fatalf("append of a revoked writer: %v", err)
	}
	mustAppend(t, same, 1)
	mustWriter(t, l, 5)
	if _, err := same.Append(build(2, 1), 0); !errors.Is(err, ErrRevoked) || !errors.Is(err, ErrFenced) {
		t.Fatalf("append of a fenced writer: %v", err)
	}
	if _, err := same.Sync(); !errors.Is(err, ErrRevoked) {
		t.Fatalf("sync of a revoked writer: %v", err)
	}
	if err := same.TruncateTo(0); !errors.Is(err, ErrRevoked) {
		t.Fatalf("truncation by a revoked writer: %v", err)
	}
	if _, err := l.Writer(4); !errors.Is(err, ErrFenced) {
		t.Fatalf("writer of an older epoch: %v", err)
	}
	if l.End() != 2 {
		t.Fatalf("end is %d", l.End())
	}
}

func TestReadersAreBoundedByTheCommittedEnd(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), smallOptions())
	w := mustWriter(t, l, 1)
	mustAppend(t, w, 3)
	mustAppend(t, w, 3)
	r := l.NewReader()
	if _, err := r.Batch(0); !errors.Is(err, errBeyondCommitted) {
		t.Fatalf("read of what is not committed: %v", err)
	}
	l.Commit(3)
	if b, err := r.Batch(1); err != nil || b.First() != 0 || b.End() != 3 {
		t.Fatalf("batch [%d,%d): %v", b.First(), b.End(), err)
	}
	if _, err := r.Batch(3); !errors.Is(err, errBeyondCommitted) {
		t.Fatalf("read of what is not committed: %v", err)
	}
	l.Commit(1)
	if l.CommittedEnd() != 3 {
		t.Fatalf("committed end moved back to %d", l.CommittedEnd())
	}
}

func TestCommitPastTheEndPanics(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), smallOptions())
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	l.Commit(1)
}

func TestTruncateCutsAtBatchAndSurvivesRestart(t *testing.T) {
	for _, cut := range []struct{ committed, end seq.Offset }{{0, 0}, {0, 5}, {10, 10}, {20, 95}, {95, 99 * 5}} {
		fsys := vfs.NewCrashable()
		l, _ := mustOpen(t, fsys, smallOptions())
		w := mustWriter(t, l, 1)
		for i := range 100 {
			if i == 50 {
				w = mustWriter(t, l, 2)
			}
			mustAppend(t, w, 5)
		}
		l.Commit(cut.committed)
		if err := w.TruncateTo(cut.end); err != nil {
			t.Fatalf("truncate to %d: %v", cut.end, err)
		}
		lost := fsys.CrashClone(vfs.Crash{})
		for _, fs := range []*vfs.Mem{fsys, lost} {
			if fs == lost {
				var rec Recovery
				l, rec = mustOpen(t, lost, smallOptions())
				if len(rec.Damaged) != 0 {
					t.Fatalf("recovery: %+v", rec)
				}
				w = mustWriter(t, l, 2)
			}
			if l.End() != cut.end || l.DurableEnd() != cut.end {
				t.Fatalf("end is %d, durable %d, want %d", l.End(), l.DurableEnd(), cut.end)
			}
			for range 30 {
				mustAppend(t, w, 2)
			}
			mustSync(t, w)
			mustRead(t, l, 0, cut.end+60)
			mustClose(t, l)
		}
	}
}

func TestTruncateNeverGoesBelowTheCommittedEnd(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), smallOptions())
	w := mustWriter(t, l, 1)
	mustAppend(t, w, 4)
	mustAppend(t, w, 4)
	l.Commit(4)
	if err := w.TruncateTo(3); !errors.Is(err, ErrBelowCommitted) {
		t.Fatal(err)
	}
	if err := w.TruncateTo(6); !errors.Is(err, errNotBoundary) {
		t.Fatal(err)
	}
	if l.End() != 8 {
		t.Fatalf("end is %d", l.End())
	}
}

func TestFollowerAppendsTheSameBytes(t *testing.T) {
	leaderFS, followerFS := vfs.NewMem(), vfs.NewMem()
	leader, _ := mustOpen(t, leaderFS, smallOptions())
	w := mustWriter(t, leader, 7)
	for i := range 60 {
		mustAppend(t, w, i%5+1)
	}
	follower, _ := mustOpen(t, followerFS, smallOptions())
	f := mustWriter(t, follower, 7)
	for follower.End() < leader.End() {
		raw, err := leader.ReadRaw(follower.End(), 700, nil)
		if err != nil {
			t.Fatal(err)
		}
		if follower.End()%2 == 0 {
			if _, err := f.AppendRaws(raw); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for len(raw) > 0 {
			b, err := Decode(raw)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.AppendRaws(raw[:b.Size():b.Size()]); err != nil {
				t.Fatal(err)
			}
			raw = raw[b.Size():]
		}
	}
	mustRead(t, follower, 0, leader.End())
	mustClose(t, leader)
	mustClose(t, follower)
	names, err := leaderFS.ReadDir(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		a, aerr := vfs.ReadFile(leaderFS, testDir+"/"+name, 1<<20)
		b, berr := vfs.ReadFile(followerFS, testDir+"/"+name, 1<<20)
		if aerr != nil || berr != nil {
			t.Fatal(aerr, berr)
		}
		if diff := cmp.Diff(a, b); diff != "" && name != checkpointName {
			t.Fatalf("%s differs: %s", name, diff)
		}
	}
}

func TestAppendRawsRefusesNonContiguousBatches(t *testing.T) {
	leader, _ := mustOpen(t, vfs.NewMem(), smallOptions())
	w := mustWriter(t, leader, 3)
	first := mustAppend(t, w, 2)
	second := mustAppend(t, mustWriter(t, leader, 5), 2)

	l, _ := mustOpen(t, vfs.NewMem(), smallOptions())
	f := mustWriter(t, l, 4)
	bad := append([]byte(nil), first.Raw()...)
	bad[len(bad)-1] ^= 1
	for _, c := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"damaged", bad, ErrInvalidBatch},
		{"cut short", first.Raw()[:first.Size()-8], ErrInvalidBatch},
		{"followed by what is no batch", append(append([]byte(nil), first.Raw()...), make([]byte, 8)...), ErrInvalidBatch},
		{"ahead", second.Raw(), ErrNotContiguous},
	} {
		if _, err := f.AppendRaws(c.raw); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := f.AppendRaws(first.Raw()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.AppendRaws(first.Raw()); !errors.Is(err, ErrNotContiguous) {
		t.Errorf("again: %v", err)
	}
	if _, err := f.AppendRaws(second.Raw()); !errors.Is(err, errStaleEpoch) {
		t.Errorf("of a later epoch than the writer's: %v", err)
	}
}

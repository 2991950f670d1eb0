package commitlog

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestEpochOfDamagedBatchIsKnownOrNot damages the last batch, which has another epoch than
// those before it: while the log is open, before it is opened, and if the batch was not committed.
func TestEpochOfDamagedBatchIsKnownOrNot(t *testing.T) {
	for _, committed := range []seq.Offset{2, 3} {
		disk := vfs.NewCrashable()
		l, _, err := Open(disk, testDir, Options{FillBytes: -1, TailBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		var sizes []int
		for i := range 3 {
			w, err := l.Writer(seq.Epoch(5 + i/2)) // 5, 5, 6
			if err != nil {
				t.Fatal(err)
			}
			b := new(Builder)
			b.Next(100)
			added, err := w.Append(b, 0)
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, added.Size())
			if _, err := w.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		l.Commit(committed)
		at := int64(segmenthead.Bytes + sizes[0] + sizes[1] + sizes[2] - 20)
		disk = disk.CrashClone(vfs.Crash{KeepPercent: 100}) // it is killed
		f, err := disk.OpenReadWrite(segmentPath(testDir, 0))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("rot"), at); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		for off, want := range map[seq.Offset]seq.Epoch{1: 5, 2: 5, 3: 6, 0: 0} {
			if got := l.EpochEnding(off); got != want {
				t.Errorf("open: %d before %d", got, off)
			}
		}
		r, found, err := Open(disk, testDir, Options{FillBytes: -1, TailBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if len(found.Damaged) == 0 {
			if committed == 3 {
				t.Fatalf("not damaged: %+v", found)
			}
			continue // it was cut
		}
		want := map[seq.Offset]seq.Epoch{2: 0, 3: 0}
		want[committed] = seq.Epoch(5 + (committed-1)/2)
		for off, e := range want {
			if got := r.EpochEnding(off); got != e {
				t.Errorf("committed to %d, opened with damage: %d before %d", committed, got, off)
			}
		}
		w, err := r.Writer(9)
		if err != nil {
			t.Fatal(err)
		}
		b := new(Builder)
		b.Next(10)
		if _, err := w.Append(b, 0); err != nil {
			t.Fatal(err)
		}
		if r.Commit(r.End()); r.EpochEnding(4) != 9 || r.EpochEnding(committed) != want[committed] {
			t.Errorf("after another batch: %d before 4, %d before %d", r.EpochEnding(4), r.EpochEnding(committed), committed)
		}
	}
}

package repair

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/commitlog/segmenthead"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestBatchesOfOtherEpochsAreRefused: epochs of a log never go back. A batch of the right size and offsets is another
// leader's if they would.
func TestBatchesOfOtherEpochsAreRefused(t *testing.T) {
	disk := vfs.NewCrashable()
	l, _, err := commitlog.Open(disk, dir, options)
	if err != nil {
		t.Fatal(err)
	}
	for epoch := seq.Epoch(2); epoch <= 6; epoch += 2 {
		w, err := l.Writer(epoch)
		if err != nil {
			t.Fatal(err)
		}
		b := new(commitlog.Builder)
		clear(b.Next(100))
		if _, err := w.Append(b, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	l.Commit(l.End())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, segmenthead.Name(0))
	text, err := vfs.ReadFile(disk, path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	flip(t, disk, path, int64(bytes.Index(text, batchAt(disk, dir, 1)))+50)
	for _, x := range []struct {
		epoch seq.Epoch
		fits  bool
	}{{1, false}, {7, false}, {9, false}, {4, true}} {
		err := repairLog(disk, dir, Range{1, 2, buildIn(t, x.epoch, 1, 2, 100)})
		if fits := err == nil; fits != x.fits || !fits && !errors.Is(err, ErrNoFit) {
			t.Errorf("a batch of epoch %d between those of 2 and 6: %v", x.epoch, err)
		}
	}
}

package commitlog

import (
	"bytes"
	"testing"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestDamagedCheckpointIsRefused: a change of any bit is noticed.
func TestDamagedCheckpointIsRefused(t *testing.T) {
	good := checkpoint{start: 1, durable: 40, durablePos: 4000, committed: 39, epoch: 3, before: 2}.encode()
	if _, err := decodeCheckpoint(good); err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		if c, err := decodeCheckpoint(bad); err == nil {
			t.Errorf("with bit %d changed it reads as %+v", bit, c)
		}
	}
}

func TestCheckpointWaitsForEnoughData(t *testing.T) {
	fsys := vfs.NewMem()
	l, _ := mustOpen(t, fsys, Options{})
	w := mustWriter(t, l, 1)
	noted := func() seq.Offset {
		c, _, err := readCheckpoint(fsys, l.dir)
		if err != nil {
			t.Fatal(err)
		}
		return c.durable
	}
	var want seq.Offset
	for i, x := range []struct {
		more bool // than was appended
		does bool
	}{{true, false}, {true, false}, {false, true}, {true, false}, {false, true}} {
		mustAppend(t, w, 3)
		mustSync(t, w)
		least := l.endPos.Load() - l.noted.durablePos
		if x.more {
			least++
		}
		if err := l.Checkpoint(least); err != nil {
			t.Fatal(err)
		}
		if x.does {
			want = l.DurableEnd()
		}
		if got := noted(); got != want {
			t.Errorf("checkpoint %d: it is noted that the log is durable to %d, want %d", i, got, want)
		}
	}
}

// A truncated log is shorter than the checkpoint says: its epoch is in the checkpoint
// nevertheless.
func TestEpochOfTruncatedLogIsStored(t *testing.T) {
	fsys := vfs.NewMem()
	l, _ := mustOpen(t, fsys, Options{})
	w := mustWriter(t, l, 1)
	kept := mustAppend(t, w, 3)
	mustAppend(t, w, 30)
	mustSync(t, w)
	if err := l.Checkpoint(0); err != nil {
		t.Fatal(err)
	}
	if err := w.TruncateTo(kept.End()); err != nil {
		t.Fatal(err)
	}
	mustWriter(t, l, 7)
	if err := l.Checkpoint(0); err != nil {
		t.Fatal(err)
	}
	if c, _, err := readCheckpoint(fsys, l.dir); err != nil || c.epoch != 7 {
		t.Errorf("epoch %d is noted, want 7; %v", c.epoch, err)
	}
}

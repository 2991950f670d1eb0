package repair

import (
	"bytes"
	"context"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// logOf returns a log of one epoch with batches of some sizes, one record each.
func logOf(t *testing.T, epoch seq.Epoch, sizes ...int) *commitlog.Log {
	t.Helper()
	l, _, err := commitlog.Open(vfs.NewMem(), "log", commitlog.Options{FillBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	w, err := l.Writer(epoch)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range sizes {
		b := new(commitlog.Builder)
		copy(b.Next(n), bytes.Repeat([]byte{byte(n)}, n))
		if _, err := w.Append(b, 0); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// TestCopyIsTrustedIfItAgreesAfterDamage offers copies that hold the same batch, another message,
// or messages of another epoch after a damaged range, and a copy with no batch there, because the
// range ends the log.
func TestCopyIsTrustedIfItAgreesAfterDamage(t *testing.T) {
	l := logOf(t, 3, 10, 20, 30)
	behind, err := commitlog.Decode(InLog(l).Batch(2))
	if err != nil {
		t.Fatal(err)
	}
	a := Wanted{From: 1, Next: 2, Behind: 2, Epoch: behind.Epoch(), Sum: behind.Checksum()}
	for name, c := range map[string]struct {
		log  *commitlog.Log
		want bool
	}{
		"the same": {l, true}, "another message": {logOf(t, 3, 10, 20, 31), false},
		"another epoch": {logOf(t, 4, 10, 20, 30), false}, "shorter": {logOf(t, 3, 10, 20), false},
	} {
		if got := InLog(c.log).holds(a); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	// At the end of the log, the epoch of the last batch identifies it.
	a = Wanted{From: 1, Next: 3, Behind: 3, Last: 3}
	for name, c := range map[string]struct {
		log  *commitlog.Log
		want bool
	}{
		"the same": {l, true}, "rewritten by another leader": {logOf(t, 4, 10, 20, 30), false}, "shorter": {logOf(t, 3, 10, 20), false},
		"longer": {logOf(t, 3, 10, 20, 30, 40), true},
	} {
		if got := InLog(c.log).holds(a); got != c.want {
			t.Errorf("at the end, %s: %t", name, got)
		}
	}
	if a.Last = 0; a.Provable() || InLog(l).holds(a) {
		t.Error("a copy is believed without a proof")
	}
	// Later appends do not change that.
	a = Wanted{From: 1, Next: 3, Behind: 3, Epoch: 9, Sum: 1, Last: 3}
	if !InLog(l).holds(a) {
		t.Error("a batch behind that only the leader has hides the epoch of the last one")
	}
}

// TestFinderReadsASegmentOnce asks for a range in pieces, repeatedly.
func TestFinderReadsASegmentOnce(t *testing.T) {
	disk, firsts := newLog(t, testrand.New(t))
	f := new(Finder)
	for range 3 {
		for _, o := range firsts[:4] {
			if f.InDir(t.Context(), disk, dir).Batch(o) == nil {
				t.Fatalf("no batch at %d", o)
			}
		}
	}
	if most := 2; f.reads > most {
		t.Errorf("%d segments are read, at most %d hold that", f.reads, most)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if new(Finder).InDir(ctx, disk, dir).Batch(0) != nil {
		t.Error("a search whose caller has gone continues")
	}
}

// TestRangeIsFetchedInPieces asks for batches that are larger than an answer, and for many small ones.
func TestRangeIsFetchedInPieces(t *testing.T) {
	l := logOf(t, 1, 10, pieceBytes/2, pieceBytes/2, 3*pieceBytes, 20, 30)
	l.Commit(l.End())
	c := InLog(l)
	var want, got []byte
	for o := seq.Offset(1); o < 5; o++ {
		want = append(want, c.Batch(o)...)
	}
	a, from := Wanted{From: 1, Next: 5, Behind: 6, Last: 1}, 0
	for n := 0; a.From < a.Next; n++ {
		p := c.Answer(t.Context(), a)
		if len(p.Bytes) == 0 || len(p.Bytes) > pieceBytes+100 || n == 20 {
			t.Fatalf("answer %d has %d bytes", n, len(p.Bytes))
		}
		got = append(got, p.Bytes...)
		if a.At = len(got) - from; p.Whole {
			for a.At = 0; from < len(got); {
				b, err := commitlog.Decode(got[from:])
				if err != nil {
					t.Fatal(err)
				}
				a.From, from = b.End(), from+b.Size()
			}
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
	for _, at := range []int{-1, 1 << 30} {
		if p := c.Answer(t.Context(), Wanted{From: 1, At: at, Next: 5, Behind: 6, Last: 1}); len(p.Bytes) > 0 {
			t.Errorf("at %d: %d bytes", at, len(p.Bytes))
		}
	}
}

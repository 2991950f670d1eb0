package mend

import (
	"bytes"
	"testing"

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

// TestACopyIsBelievedIfItAgreesBehindTheDamage has copies that hold the same, another message, or messages
// of another epoch behind a range; and none, as the range is at the log's end.
func TestACopyIsBelievedIfItAgreesBehindTheDamage(t *testing.T) {
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
	a = Wanted{From: 1, Next: 3, Behind: 3, Last: true}
	if InLog(l).holds(a) {
		t.Error("what is not committed is taken for what was lost")
	}
	l.Commit(3)
	if !InLog(l).holds(a) {
		t.Error("what is committed is not")
	}
}

// TestARangeComesInPieces asks for batches that are larger than an answer, and for many small ones.
func TestARangeComesInPieces(t *testing.T) {
	l := logOf(t, 1, 10, pieceBytes/2, pieceBytes/2, 3*pieceBytes, 20, 30)
	l.Commit(l.End())
	c := InLog(l)
	var want, got []byte
	for o := seq.Offset(1); o < 5; o++ {
		want = append(want, c.Batch(o)...)
	}
	a, from := Wanted{From: 1, Next: 5, Behind: 6, Last: true}, 0
	for n := 0; a.From < a.Next; n++ {
		p := c.Answer(a)
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
		if p := c.Answer(Wanted{From: 1, At: at, Next: 5, Behind: 6, Last: true}); len(p.Bytes) > 0 {
			t.Errorf("at %d: %d bytes", at, len(p.Bytes))
		}
	}
}

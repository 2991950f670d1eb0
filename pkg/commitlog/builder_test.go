package commitlog

import (
	"bytes"
	"slices"
	"testing"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestBatchKeepsItsBytesWhileOthersForm checks that batches are never formed
// in the memory of an appended batch, whether small or too large to be copied.
func TestBatchKeepsItsBytesWhileOthersForm(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), Options{})
	w := mustWriter(t, l, 1)
	var batches []Batch
	var bodies [][]byte
	for i, size := range []int{1, 5000, 20, maxScratchBytes + 1, 100, 300_000, maxScratchBytes, 3, 4000} {
		body := bytes.Repeat([]byte{byte(i + 1)}, size)
		b := new(Builder)
		copy(b.Next(size), body)
		batch, err := w.Append(b, 0)
		if err != nil {
			t.Fatal(err)
		}
		if b.Count() != 0 || b.Size() != headerBytes {
			t.Errorf("the builder holds %d records, %d bytes afterwards", b.Count(), b.Size())
		}
		batches, bodies = append(batches, batch), append(bodies, body)
		for k, earlier := range batches {
			if _, err := Decode(earlier.raw); err != nil || !bytes.Equal(earlier.Record(0), bodies[k]) {
				t.Fatalf("batch %d has changed after batch %d was appended: %v", k, i, err)
			}
		}
	}
}

// TestBatchContainsNothingOfPreviousOne checks that the padding of a batch is zero,
// whatever its memory held.
func TestBatchContainsNothingOfPreviousOne(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), Options{})
	w := mustWriter(t, l, 1)
	for range 20 {
		b := new(Builder)
		copy(b.Next(500), bytes.Repeat([]byte{0xee}, 500))
		if _, err := w.Append(b, 0); err != nil {
			t.Fatal(err)
		}
		b.Next(1)[0] = 1
		small, err := w.Append(b, 0)
		if err != nil {
			t.Fatal(err)
		}
		if padding := small.raw[headerBytes+2:]; slices.ContainsFunc(padding, func(c byte) bool { return c != 0 }) {
			t.Fatalf("padding %x", padding)
		}
	}
}

// TestRefusedBatchIsAppendedLater: a builder is unchanged after a refusal.
func TestRefusedBatchIsAppendedLater(t *testing.T) {
	l, _ := mustOpen(t, vfs.NewMem(), Options{})
	old := mustWriter(t, l, 1)
	b := build(0, 3)
	size := b.Size()
	w := mustWriter(t, l, 2)
	if _, err := old.Append(b, 0); err == nil {
		t.Fatal("a revoked writer appended")
	}
	if b.Count() != 3 || b.Size() != size {
		t.Fatalf("the builder holds %d records, %d bytes", b.Count(), b.Size())
	}
	batch, err := w.Append(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if !bytes.Equal(batch.Record(i), payload(seq.Offset(i))) {
			t.Errorf("record %d is %x", i, batch.Record(i))
		}
	}
}

func TestReservedMemoryIsNotGrown(t *testing.T) {
	const records, size = 30, 100_000
	total := records * RecordBytes(size)
	for _, before := range []int{0, 1, 5000} {
		var got, want Builder
		for range before {
			copy(got.Next(3), "abc")
			copy(want.Next(3), "abc")
		}
		got.Reserve(total)
		first := &got.raw[0]
		for i := range records {
			copy(got.Next(size), bytes.Repeat([]byte{byte(i)}, size))
			copy(want.Next(size), bytes.Repeat([]byte{byte(i)}, size))
		}
		at := place{epoch: 3, first: 7, committed: 5}
		if sealed := got.seal(at, 9); !bytes.Equal(sealed, want.seal(at, 9)) {
			t.Errorf("behind %d records: another batch than without reserving", before)
		}
		if &got.raw[0] != first {
			t.Errorf("behind %d records: the memory was grown", before)
		}
		if kept := got.spend(got.raw); &kept[0] != first {
			t.Errorf("behind %d records: a large batch was copied", before)
		}
	}
	var few Builder
	if few.Reserve(maxScratchBytes); few.raw != nil {
		t.Error("memory was reserved for few")
	}
}

// A reservation doubles the memory, so that entries are not copied each time.
func TestReservingPerEntryCopiesLittle(t *testing.T) {
	const size, entries = 3 << 20, 16
	var b Builder
	made := 0
	for range entries {
		was := cap(b.raw)
		b.Reserve(RecordBytes(size))
		b.Next(size)
		if cap(b.raw) != was {
			made++
		}
	}
	if made > 6 {
		t.Errorf("%d entries of one size allocated memory %d times", entries, made)
	}
}

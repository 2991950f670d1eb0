package commitlog

import (
	"testing"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// Many busy logs together stay within their share of memory. A few of them use the
// maximum of each, and an idle log leaves its part to others.
func TestTailsShareTheirBytes(t *testing.T) {
	const each, all = 32 << 10, 128 << 10
	tails := NewTails(all)
	logs, writers := make([]*Log, 16), make([]*Writer, 16)
	held := func() (sum int) {
		for _, l := range logs {
			if l != nil {
				sum += l.tail.bytes
			}
		}
		return sum
	}
	fill := func(w *Writer) {
		for range 2000 {
			mustAppend(t, w, 1)
		}
	}
	for i := range logs {
		logs[i], _ = mustOpen(t, vfs.NewMem(), Options{FillBytes: -1, TailBytes: each, Tails: tails})
		writers[i] = mustWriter(t, logs[i], 1)
		fill(writers[i])
		if i == 3 && (held() < 3*each || held() > all) {
			t.Errorf("4 logs hold %d bytes of %d", held(), all)
		}
	}
	for _, w := range writers {
		fill(w)
	}
	if held() > all || held() < all/2 { // a tail keeps its last batch
		t.Errorf("%d logs hold %d bytes of %d", len(logs), held(), all)
	}
	for _, l := range logs[1:] {
		l.ReleaseTail()
		l.ReleaseTail() // nothing is released twice
	}
	fill(writers[0])
	if n := held(); n < each*9/10 || n > each {
		t.Errorf("a log alone holds %d bytes of %d", n, each)
	}
	if err := writers[0].TruncateTo(logs[0].Start()); err != nil {
		t.Fatal(err)
	}
	if n := tails.taken.Load(); n != 0 {
		t.Errorf("%d tails are taken though all are empty", n)
	}
}

func TestTailKeepsBatchesInTransit(t *testing.T) {
	if n := (*Tails)(nil).part(100); n != 100 {
		t.Errorf("without a share a tail may take %d", n)
	}
	tails := NewTails(1 << 20)
	tails.taken.Store(1 << 20)
	if n := tails.part(1 << 20); n != leastTail {
		t.Errorf("one of a million tails may take %d", n)
	}
}

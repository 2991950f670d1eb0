package broker

import (
	"errors"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/vfs"
)

func TestHeadroomCountsWhatTheDiskNeedNotShowYet(t *testing.T) {
	var h headroom
	h.observe(1000, 400)
	if !h.take(500) || h.take(101) || !h.take(100) || h.take(1) {
		t.Error("600 bytes are there to be taken")
	}
	h.observe(1000, 400) // none of it is written
	if h.take(1) {
		t.Error("the same bytes are given twice")
	}
	h.observe(900, 400)
	if !h.take(500) || h.take(1) {
		t.Error("500 bytes are there after that")
	}
	h.observe(100, 400)
	if h.take(1) {
		t.Error("the reserve is given")
	}
	h.unknown()
	if !h.take(1 << 40) {
		t.Error("publishes are refused though nothing is known of the disk")
	}
}

// TestABurstStopsAtTheReserve: what comes between two looks at the disk does not fill
// it.
func TestABurstStopsAtTheReserve(t *testing.T) {
	const size, room = 256 << 10, 1 << 20
	disk := &small{FS: vfs.NewMem(), free: 1 << 40}
	n := newNodeOn(t, disk)
	n.put("t", "a")
	free := uint64(DefaultDiskReserve + room)
	disk.set(free)
	n.checkDisk() // the write before it counts once
	n.checkDisk()
	taken, body := 0, strings.Repeat("x", size)
	for {
		disk.set(free - size)
		err := n.try("t", body)
		if err != nil {
			if !errors.Is(err, ErrDiskFull) || fate.Of(err) != fate.Refused {
				t.Errorf("refused with %v", err)
			}
			break
		}
		free -= size
		if taken += size; taken > room {
			t.Fatalf("%d bytes were taken where there was room for %d", taken, room)
		}
	}
	if taken == 0 {
		t.Error("nothing was taken")
	}
	disk.set(free)
	n.checkDisk()
	if !n.lowDisk.Load() {
		t.Error("the disk is not low though publishes are refused: nobody is told, and nothing is handed over")
	}
}

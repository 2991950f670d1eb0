package broker

import (
	"errors"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestBurstStopsAtTheReserve: publishes between two checks of the free space do not
// fill the disk.
func TestBurstStopsAtTheReserve(t *testing.T) {
	const size, room = 256 << 10, 1 << 20
	disk := &small{FS: vfs.NewMem(), free: 1 << 40}
	n := newNodeOn(t, disk)
	n.put("t", "a")
	free := uint64(host.DefaultDiskReserve + room)
	disk.set(free)
	n.Host.Disk.Look() // the write before it counts once
	n.Host.Disk.Look()
	taken, body := 0, strings.Repeat("x", size)
	for {
		disk.set(free - size)
		err := n.try("t", body)
		if err != nil {
			if !errors.Is(err, failure.DiskFull) || fate.Of(err) != fate.Refused {
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
	n.Host.Disk.Look()
	if !n.Host.Disk.Low() {
		t.Error("the disk is not low though publishes are refused: nothing is reported, and no leadership is transferred")
	}
}

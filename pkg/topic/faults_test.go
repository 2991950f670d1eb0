package topic

import (
	"syscall"
	"testing"

	"github.com/brokerd/brokerd/pkg/vfs"
)

// TestAChannelIsNotThereBeforeItsStartIsStored: asking again after a full disk
// must not be answered before the start is on disk. A power cut would otherwise
// make the channel start at the end, and skip what was published meanwhile.
func TestAChannelIsNotThereBeforeItsStartIsStored(t *testing.T) {
	b := newBench(t)
	b.channel("first", 1)
	faulty := vfs.NewFaulty(b.fs)
	b.p.o.FS, b.p.positions.fs = faulty, faulty
	faulty.Decide(func(int64, vfs.Op) vfs.Fault { return vfs.Fault{Err: syscall.ENOSPC} })
	for try := range 2 {
		if _, err := b.p.AddChannel("later", 2, ChannelOptions{}); err == nil {
			t.Errorf("try %d: the channel was added on a full disk", try)
		}
	}
}

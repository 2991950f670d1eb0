//go:build linux

package vfs

import (
	"os"
	"syscall"
	"testing"
)

// FailDataSyncs has the next n syncs of a file's data fail with EIO until the test ends, as the system does that tells
// of a failed write once.
func FailDataSyncs(t *testing.T, name string, n int) {
	t.Helper()
	block := dataSync.block
	dataSync.block = func(f *os.File) error {
		if f.Name() == name && n > 0 {
			n--
			return syscall.EIO
		}
		return block(f)
	}
	t.Cleanup(func() { dataSync.block = block })
}

// GiveUp has a file give up its descriptor, and says whether one has.
func GiveUp(f *Files) bool { return f.giveUp() }

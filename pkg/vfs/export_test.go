package vfs

import (
	"os"
	"syscall"
	"testing"
)

// FailDataSyncs makes the next n syncs of a file's data fail with EIO until the test ends, like a
// system that reports a failed write once.
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

// GiveUp makes a file give up its descriptor, and reports whether one did.
func GiveUp(f *Files) bool { return f.giveUp() }

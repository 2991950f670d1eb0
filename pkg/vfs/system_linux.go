package vfs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func fdatasync(f *os.File) error {
	return ignoringEINTR(func() error { return unix.Fdatasync(int(f.Fd())) })
}

// syncFileSystem makes durable what was written to the file system of f. Before Linux 5.8 syncfs(2) did not
// report failed writes: see reportsFailedWrites.
func syncFileSystem(f *os.File) error {
	return ignoringEINTR(func() error { return unix.Syncfs(int(f.Fd())) })
}

// reportsFailedWrites reports whether syncFileSystem returns an error if a write has failed.
func reportsFailedWrites() bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	return atLeast(unix.ByteSliceToString(name.Release[:]), 5, 8)
}

// atLeast reports whether a kernel release has at least this version.
func atLeast(release string, major, minor int) bool {
	var m, n int
	if _, err := fmt.Sscanf(release, "%d.%d", &m, &n); err != nil {
		return false
	}
	return m > major || m == major && n >= minor
}

// allocate is OS.Allocate.
func allocate(f *os.File, off, n int64) error {
	return ignoringEINTR(func() error { return unix.Fallocate(int(f.Fd()), 0, off, n) })
}

// dropCache drops a range from the system's cache, as far as it is on disk.
func dropCache(f *os.File, off, n int64) {
	_ = unix.Fadvise(int(f.Fd()), off, n, unix.FADV_DONTNEED) // only advice: an error does not matter
}

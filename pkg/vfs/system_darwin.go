package vfs

import (
	"errors"
	"os"
)

// fdatasync makes the whole file durable, with F_FULLFSYNC.
func fdatasync(f *os.File) error { return f.Sync() }

func syncFileSystem(*os.File) error { return errors.ErrUnsupported }

// reportsFailedWrites is false: no call syncs a whole file system and reports its errors.
func reportsFailedWrites() bool { return false }

// allocate returns errors.ErrUnsupported.
func allocate(*os.File, int64, int64) error { return errors.ErrUnsupported }

func dropCache(*os.File, int64, int64) {}

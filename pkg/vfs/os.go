package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// OS is the operating system's file system. It creates files with mode 0640 and directories with
// 0750. The zero value is ready to use.
type OS struct {
	// Syncs keeps syncs from blocking all places of the runtime; nil: nothing does.
	Syncs *Syncs
	// Files lends descriptors to files that are open for writing; nil: each file keeps its own
	// while it is open.
	Files *Files
}

var _ FS = OS{}

type osFile struct {
	*os.File
	system OS
}

// open opens a file that keeps its descriptor.
func (s OS) open(name string, flag int) (File, error) {
	f, err := s.openFile(name, flag)
	if err != nil {
		return nil, err
	}
	return osFile{f, s}, nil
}

func (s OS) openFile(name string, flag int) (f *os.File, err error) {
	err = s.Files.retry(func() error {
		f, err = openBlocking(name, flag)
		return err
	})
	if err != nil {
		return nil, err
	}
	switch {
	case flag&os.O_TRUNC != 0:
		s.Files.renewed(f)
	case flag == os.O_RDWR:
		if err := s.Files.lost(f); err != nil {
			_ = f.Close() // nothing was written to it
			return nil, err
		}
	}
	return f, nil
}

// openBlocking is os.OpenFile for regular files, for which the runtime's poller is of no use:
// trying to register them costs five more system calls.
func openBlocking(name string, flag int) (*os.File, error) {
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Open(name, flag|unix.O_CLOEXEC, fileMode)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil //nolint:gosec // a descriptor is not negative
}

// openWritable opens a file for writing. If descriptors are counted, the file is a virtualFile.
func (s OS) openWritable(name string, flag int) (File, error) {
	if s.Files.counts(name) {
		return s.openVirtual(name, flag)
	}
	return s.open(name, flag)
}

// Create implements FS.
func (s OS) Create(name string) (File, error) {
	return s.openWritable(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

// Open implements FS.
func (s OS) Open(name string) (File, error) { return s.open(name, os.O_RDONLY) }

// OpenReadWrite implements FS.
func (s OS) OpenReadWrite(name string) (File, error) { return s.openWritable(name, os.O_RDWR) }

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// RemoveAll implements FS.
func (OS) RemoveAll(name string) error { return os.RemoveAll(name) }

// Rename implements FS.
func (OS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// MkdirAll implements FS.
func (OS) MkdirAll(name string) error { return os.MkdirAll(name, dirMode) }

// ReadDir implements FS.
func (s OS) ReadDir(name string) ([]string, error) {
	var entries []fs.DirEntry
	err := s.Files.retry(func() (err error) {
		entries, err = os.ReadDir(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Stat implements FS.
func (OS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// SyncDir implements FS.
func (s OS) SyncDir(name string) error {
	return s.Syncs.names(name, func() error {
		return s.Files.retryWithSpare(func() error {
			d, err := openBlocking(name, os.O_RDONLY)
			if err != nil {
				return err
			}
			return errors.Join(named("fsync", d, s.Syncs.sync(d, nameSync)), d.Close())
		})
	})
}

// OpenVolume implements the function OpenVolume. No volume can be synced where the system does not
// report failed writes.
func (s OS) OpenVolume(name string) (Volume, error) {
	if !reportsFailedWrites() {
		return nil, errors.ErrUnsupported
	}
	f, err := s.openFile(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return osVolume{f}, nil
}

// osVolume is the file system of an open file. The kernel reports a failed write to each open file once.
type osVolume struct{ *os.File }

// Sync implements Volume.
func (v osVolume) Sync() error { return named("syncfs", v.File, syncFileSystem(v.File)) }

// Lock implements FS with flock(2). It creates the file if it is missing, and leaves it in place
// afterwards: if it were removed, two callers could lock two files.
func (s OS) Lock(name string) (io.Closer, error) {
	f, err := s.openFile(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = ignoringEINTR(func() error {
		return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	})
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
}

// leastFiles is the number of inodes below which a file system has few: a node that removes data
// creates some files as well.
const leastFiles = 128

// Usage implements FS. Free is what an unprivileged process may still use.
func (OS) Usage(name string) (Usage, error) {
	var st unix.Statfs_t
	if err := ignoringEINTR(func() error { return unix.Statfs(name, &st) }); err != nil {
		return Usage{}, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	block := uint64(st.Bsize)                    //nolint:gosec // a block size is positive
	few := st.Files > 0 && st.Ffree < leastFiles // without a limit, Files is 0
	return Usage{Total: st.Blocks * block, Free: st.Bavail * block, FewFiles: few}, nil
}

// Size implements File.
func (f osFile) Size() (int64, error) { return sizeOf(f.File) }

func sizeOf(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Allocate allocates n bytes from off for a file that the caller opened itself, and makes it that
// long if it is shorter. Where it returns errors.ErrUnsupported, the file system cannot.
func (OS) Allocate(f *os.File, off, n int64) error { return allocate(f, off, n) }

// Preallocate implements File.
func (f osFile) Preallocate(off, n int64) error { return preallocate(f.File, off, n) }

// preallocate is File.Preallocate. On a file system that cannot allocate it only makes the file longer,
// and a later write may find no room.
func preallocate(f *os.File, off, n int64) error {
	err := allocate(f, off, n)
	if !errors.Is(err, errors.ErrUnsupported) {
		return named("fallocate", f, err)
	}
	size, err := sizeOf(f)
	if err != nil || size >= off+n {
		return err
	}
	return f.Truncate(off + n)
}

// DropCache implements the function DropCache.
func (f osFile) DropCache(off, n int64) { dropCache(f.File, off, n) }

// SyncData implements File.
func (f osFile) SyncData() error { return f.system.syncData(f.File) }

// SyncAside is SyncData: see the function SyncAside.
func (f osFile) SyncAside() error { return f.system.syncAside(f.File) }

// Sync implements File.
func (f osFile) Sync() error { return f.system.syncWhole(f.File) }

// syncData is File.SyncData with fdatasync(2), or with the kernel's asynchronous equivalent: see
// Syncs.
func (s OS) syncData(f *os.File) error { return s.synced(f, named("fdatasync", f, s.Syncs.data(f))) }

// syncAside is syncData: see the function SyncAside.
func (s OS) syncAside(f *os.File) error {
	return s.synced(f, named("fdatasync", f, s.Syncs.aside(f, dataSync)))
}

// syncWhole is File.Sync.
func (s OS) syncWhole(f *os.File) error { return s.synced(f, f.Sync()) }

// synced returns the error of a sync, or of an earlier one that the system no longer reports.
func (s OS) synced(f *os.File, err error) error {
	if err != nil {
		return err
	}
	return s.Files.lost(f)
}

// named adds the failed call and the file to an error.
func named(op string, f *os.File, err error) error {
	if err != nil {
		return &fs.PathError{Op: op, Path: f.Name(), Err: err}
	}
	return nil
}

// ignoringEINTR repeats a call that a signal interrupted before it did anything.
func ignoringEINTR(call func() error) error {
	for {
		err := call()
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Package vfs abstracts the disk. All of the broker's files go through an FS: the operating
// system's, or an in-memory one for data that may be lost with the process, which tests can
// also crash. It does not know what files mean.
package vfs

import (
	"io"
	"io/fs"
)

// FS is a file system. Its methods are safe for concurrent use. Errors
// wrap the fs and syscall sentinels, so errors.Is(err, fs.ErrNotExist) and
// errors.Is(err, syscall.ENOSPC) work on every implementation.
type FS interface {
	// Create opens a new empty file for reading and writing. It truncates an existing file with
	// that name.
	Create(name string) (File, error)
	// Open opens a file for reading only.
	Open(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and writing.
	OpenReadWrite(name string) (File, error)
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// RemoveAll deletes a tree. It is no error if the name does not exist.
	RemoveAll(name string) error
	// Rename moves oldName over newName in one step. It is durable once the
	// directories of both have been synced.
	Rename(oldName, newName string) error
	// MkdirAll creates a directory and its parents.
	MkdirAll(name string) error
	// ReadDir lists the names in a directory, sorted.
	ReadDir(name string) ([]string, error)
	// Stat describes a file.
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the names in a directory durable: once it has returned, creations, renames and
	// removals in the directory survive a power cut.
	SyncDir(name string) error
	// Lock takes an exclusive lock that is named by a file. The lock lasts until it is closed. Lock
	// fails at once with ErrLocked if another process or caller holds it.
	Lock(name string) (io.Closer, error)
	// Usage returns how many bytes the disk of name has in total, and how many are free for this
	// process.
	Usage(name string) (Usage, error)
}

// Usage is the state of a disk, in bytes.
type Usage struct {
	Total, Free uint64
	FewFiles    bool // the file system has almost no inodes left: soon no file can be created
}

// File is an open file. ReadAt is safe for concurrent use, also during WriteAt. Only one goroutine
// at a time may call the other methods, except that SyncData may run during WriteAt. It then covers
// the writes that returned before it was called.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size returns the file's length in bytes.
	Size() (int64, error)
	// Truncate sets the file's length; new bytes are zero.
	Truncate(size int64) error
	// Preallocate reserves blocks for [off, off+n), and makes the file at least that long. The new
	// bytes read as zero. It fails with ENOSPC if there is no room.
	Preallocate(off, n int64) error
	// SyncData makes the contents and the length durable (fdatasync). After an error it is unknown
	// what is on disk, and it must not be called again.
	SyncData() error
	// Sync makes contents and attributes durable (fsync).
	Sync() error
}

// Facts that users of a file system need.
const (
	// MaxBegun is how many bytes a Member may have written at most to use BeginSync. After a larger
	// write the Member syncs itself.
	MaxBegun = 16 << 10
	// TempSuffix ends the names of files that WriteFileSynced has not finished.
	TempSuffix = ".tmp"
)

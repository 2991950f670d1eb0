package backup

import (
	"context"
	"io"
	"iter"
	"time"
)

// Store holds the objects of a repository under names with slashes. It has them on durable storage
// once Commit has returned, and lists them at once. Its methods may be called concurrently, by
// several processes.
type Store interface {
	// Draft begins an object, which is not listed before it is committed.
	Draft() (Draft, error)
	// Open returns the content of an object. If it is longer than limit, it may be cut after more
	// than limit bytes. The error for an object that does not exist is fs.ErrNotExist.
	Open(ctx context.Context, name string, limit int64) (io.ReadSeekCloser, error)
	// List returns the objects whose names begin with the prefix, in any order.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
	// Remove removes an object, if it exists.
	Remove(ctx context.Context, name string) error
	// Tidy removes the remains of writes that were interrupted before a time.
	Tidy(ctx context.Context, before time.Time) error
	// String returns the location of the store, for messages.
	String() string
}

// Draft is an object that is being written. Either Commit or Discard ends it.
type Draft interface {
	io.Writer
	// Commit gives the object a name. An object of this name is replaced as a whole.
	Commit(ctx context.Context, name string) error
	// Discard removes what was written.
	Discard() error
}

// Object describes a stored object.
type Object struct {
	Name     string
	Bytes    int64
	Modified time.Time // by the clock of the store
}

package vfs

import "fmt"

// OpKind is a kind of operation on a file system.
type OpKind string

// The operations that a crashable Mem records and that tests make fail.
const (
	OpCreate      OpKind = "create"
	OpOpen        OpKind = "open"
	OpRemove      OpKind = "remove"
	OpRename      OpKind = "rename"
	OpMkdir       OpKind = "mkdir"
	OpReadDir     OpKind = "readdir"
	OpStat        OpKind = "stat"
	OpSyncDir     OpKind = "syncdir"
	OpSyncVolume  OpKind = "syncvolume"
	OpLock        OpKind = "lock"
	OpUsage       OpKind = "usage"
	OpRead        OpKind = "read"
	OpWrite       OpKind = "write"
	OpTruncate    OpKind = "truncate"
	OpPreallocate OpKind = "preallocate"
	OpSyncData    OpKind = "syncdata"
	OpSync        OpKind = "sync"
)

// Op is one operation. Name is the file or directory, for a rename the new name. Off and Len are in
// bytes, if the operation has them.
type Op struct {
	Kind     OpKind
	Name     string
	Off, Len int64
}

// String shows the operation on one line.
func (o Op) String() string {
	switch o.Kind {
	case OpRead, OpWrite, OpPreallocate:
		return fmt.Sprintf("%s %s [%d,%d)", o.Kind, o.Name, o.Off, o.Off+o.Len)
	case OpTruncate:
		return fmt.Sprintf("%s %s %d", o.Kind, o.Name, o.Len)
	default:
		return fmt.Sprintf("%s %s", o.Kind, o.Name)
	}
}

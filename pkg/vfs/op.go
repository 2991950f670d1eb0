package vfs

import "fmt"

// OpKind is a kind of operation on a file system.
type OpKind uint8

// The operations that a crashable Mem records and that tests make fail.
const (
	OpCreate OpKind = iota + 1
	OpOpen
	OpRemove
	OpRename
	OpMkdir
	OpReadDir
	OpStat
	OpSyncDir
	OpSyncVolume
	OpLock
	OpUsage
	OpRead
	OpWrite
	OpTruncate
	OpPreallocate
	OpSyncData
	OpSync
)

// String returns the operation's name.
func (k OpKind) String() string {
	switch k {
	case OpCreate:
		return "create"
	case OpOpen:
		return "open"
	case OpRemove:
		return "remove"
	case OpRename:
		return "rename"
	case OpMkdir:
		return "mkdir"
	case OpReadDir:
		return "readdir"
	case OpStat:
		return "stat"
	case OpSyncDir:
		return "syncdir"
	case OpSyncVolume:
		return "syncvolume"
	case OpLock:
		return "lock"
	case OpUsage:
		return "usage"
	case OpRead:
		return "read"
	case OpWrite:
		return "write"
	case OpTruncate:
		return "truncate"
	case OpPreallocate:
		return "preallocate"
	case OpSyncData:
		return "syncdata"
	case OpSync:
		return "sync"
	}
	return "unknown"
}

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
	case OpCreate, OpOpen, OpRemove, OpRename, OpMkdir, OpReadDir, OpStat, OpSyncDir, OpSyncVolume, OpLock, OpUsage, OpSyncData, OpSync:
	}
	return fmt.Sprintf("%s %s", o.Kind, o.Name)
}

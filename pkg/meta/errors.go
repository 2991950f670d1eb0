package meta

import (
	"errors"

	"github.com/brokerd/brokerd/pkg/fate"
)

// Why a command is refused. Each is marked fate.Refused: nothing was changed.
var (
	ErrTopicNotFound     = fate.Refuse("topic not found")
	ErrChannelNotFound   = fate.Refuse("channel not found")
	ErrPartitionNotFound = fate.Refuse("partition not found")
	ErrNodeNotFound      = fate.Refuse("node not found")
	ErrNotInTrash        = fate.Refuse("not in the trash: never deleted, restored, or purged")
	ErrManyDeleted       = fate.Refuse("several deleted topics have the name")
	ErrNameTaken         = fate.Refuse("name is taken")
	ErrSavedNotFound     = fate.Refuse("saved positions not found")
	ErrNodeInUse         = fate.Refuse("node still holds replicas")
	ErrExists            = fate.Refuse("already exists with a different configuration")
	ErrStaleVersion      = fate.Refuse("stale version")
	ErrStaleEpoch        = fate.Refuse("stale epoch")
	ErrStaleIncarnation  = fate.Refuse("stale incarnation")
	ErrStaleIndex        = fate.Refuse("index already applied")
	ErrNotInISR          = fate.Refuse("node is not in sync")
	ErrSuspect           = fate.Refuse("replica may have lost acknowledged records")
	ErrInvalidISR        = fate.Refuse("invalid in-sync set")
	ErrInvalidAssignment = fate.Refuse("invalid replica assignment")
	ErrInvalidName       = fate.Refuse("invalid name")
	ErrInvalidConfig     = fate.Refuse("invalid configuration")
	ErrUnknownSetting    = fate.Refuse("unknown setting")
	ErrLimit             = fate.Refuse("limit reached")
	ErrTooFewNodes       = fate.Refuse("not enough nodes for the replicas")
	ErrCommandTooLarge   = fate.Refuse("command too large")
	// ErrLevel: a node does not support the feature level that the cluster has or is to have.
	ErrLevel = fate.Refuse("feature level not supported")
)

// What stored bytes may turn out to be.
var (
	// ErrUnknownCommand: a command of a version or kind that this build does
	// not know. A node that meets one must stop: to pass over it is to diverge.
	ErrUnknownCommand = errors.New("unknown command; upgrade brokerd")
	// ErrCorrupt: the bytes are not what was written. It is marked fate.Corrupt.
	ErrCorrupt = fate.Mark(errors.New("metadata is corrupt"), fate.Corrupt)
	// ErrUnknownSnapshot: a snapshot in a format that this build does not know.
	ErrUnknownSnapshot = errors.New("unknown snapshot format; upgrade brokerd")
)

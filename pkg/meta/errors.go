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
	ErrNodeInUse         = fate.Refuse("node still holds replicas")
	ErrExists            = fate.Refuse("exists with another configuration")
	ErrStaleVersion      = fate.Refuse("version is not the current one")
	ErrStaleEpoch        = fate.Refuse("epoch is not the current one")
	ErrStaleIncarnation  = fate.Refuse("incarnation is not the current one")
	ErrStaleIndex        = fate.Refuse("index was applied before")
	ErrNotInISR          = fate.Refuse("node is not in sync")
	ErrSuspect           = fate.Refuse("replica may have lost acknowledged records")
	ErrInvalidISR        = fate.Refuse("in-sync set is not valid")
	ErrInvalidAssignment = fate.Refuse("assignment of replicas is not valid")
	ErrInvalidName       = fate.Refuse("name is not valid")
	ErrInvalidConfig     = fate.Refuse("configuration is not valid")
	ErrUnknownSetting    = fate.Refuse("setting is not known")
	ErrLimit             = fate.Refuse("limit reached")
	ErrTooFewNodes       = fate.Refuse("too few nodes for the replicas")
	ErrCommandTooLarge   = fate.Refuse("command is too large")
)

// What stored bytes may turn out to be.
var (
	// ErrUnknownCommand: a command of a version or kind that this build does
	// not know. A node that meets one must stop: to pass over it is to diverge.
	ErrUnknownCommand = errors.New("command is not known to this version of the program")
	// ErrCorrupt: the bytes are not what was written. It is marked fate.Corrupt.
	ErrCorrupt = fate.Mark(errors.New("metadata is corrupt"), fate.Corrupt)
	// ErrUnknownSnapshot: a snapshot in a format that this build does not know.
	ErrUnknownSnapshot = errors.New("snapshot format is not known to this version of the program")
)

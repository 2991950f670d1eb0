package meta

import (
	"errors"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

// Refusals of commands. Each is marked fate.Refused: nothing was changed.
var (
	ErrTopicNotFound     error = failure.TopicNotFound
	ErrChannelNotFound   error = failure.ChannelNotFound
	ErrPartitionNotFound error = failure.PartitionNotFound
	ErrNodeNotFound      error = failure.NodeNotFound
	ErrNotInTrash        error = failure.NotInTrash
	errManyDeleted       error = failure.ManyDeleted
	ErrNameTaken         error = failure.NameTaken
	ErrSavedNotFound     error = failure.SavedNotFound
	ErrNodeInUse         error = failure.NodeInUse
	ErrExists            error = failure.TopicExists
	ErrStaleVersion      error = failure.StaleVersion
	ErrStaleEpoch        error = failure.StaleEpoch
	ErrStaleIncarnation  error = failure.StaleIncarnation
	errStaleIndex        error = failure.StaleIndex
	ErrNotInISR          error = failure.NotInISR
	ErrSuspect           error = failure.Suspect
	errInvalidISR        error = failure.InvalidISR
	ErrInvalidAssignment error = failure.InvalidAssignment
	ErrInvalidName       error = failure.InvalidName
	ErrInvalidConfig     error = failure.InvalidConfig
	errUnknownSetting    error = failure.UnknownSetting
	ErrLimit             error = failure.LimitReached
	ErrTooFewNodes       error = failure.TooFewNodes
	ErrCommandTooLarge   error = failure.CommandTooLarge
	// ErrLevel: a node does not support the current or requested feature level of the cluster.
	ErrLevel error = failure.FeatureLevel
)

// Errors of stored bytes.
var (
	// ErrUnknownCommand: a command of a version or kind unknown to this build. The node must
	// stop: skipping it would make it diverge.
	ErrUnknownCommand = errors.New("unknown command; upgrade brokerd")
	// ErrCorrupt: the bytes are not what was written. It is marked fate.Corrupt.
	ErrCorrupt = fate.Mark(errors.New("metadata is corrupt"), fate.Corrupt)
	// ErrUnknownSnapshot: a snapshot in a format unknown to this build.
	ErrUnknownSnapshot = errors.New("unknown snapshot format; upgrade brokerd")
)

package meta

import (
	"errors"

	"github.com/brokerd/brokerd/pkg/fate"
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

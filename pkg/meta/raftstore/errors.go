package raftstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

// Errors of a Store besides the sentinels of package meta.
var (
	// ErrNotLeader: another node, or none, leads the metadata. Refused.
	ErrNotLeader error = failure.NotController
	// ErrBusy: the command was not accepted within ApplyTimeout. Refused.
	ErrBusy error = failure.MetadataBusy
	// ErrDiskFull: the metadata's disk is full. Refused; it recovers automatically once there
	// is space.
	ErrDiskFull error = failure.MetadataDiskFull
	// ErrClosed: the store is closed or has failed. Refused.
	ErrClosed error = failure.MetadataClosed
	// ErrUnknownOutcome: the command may have been applied, or may still be.
	ErrUnknownOutcome error = failure.CommandUnknown
	// ErrBehind: the command was applied, but this node has not come that far.
	ErrBehind = fate.Mark(errors.New("metadata on this node is behind"), fate.Uncertain)
	// ErrLost: the store existed, and its files do not say what was in it.
	ErrLost              = fate.Mark(errors.New("metadata lost"), fate.Corrupt)
	errNotProposed error = failure.NotProposed
	// ErrOtherNode: the directory belongs to another node.
	ErrOtherNode = errors.New("metadata belongs to another node")
)

// proposeError says what an error of the consensus library means for the
// command.
func proposeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	}
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
}

func givenUp(ctx context.Context) error {
	return fmt.Errorf("%w: %w", ErrUnknownOutcome, context.Cause(ctx))
}

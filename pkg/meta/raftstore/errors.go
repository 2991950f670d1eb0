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
	// errBusy: the command was not accepted within ApplyTimeout. Refused.
	errBusy error = failure.MetadataBusy
	// errDiskFull: the metadata's disk is full, and the command neither frees space nor is there
	// room for it. Refused; it recovers automatically once there is space.
	errDiskFull error = failure.MetadataDiskFull
	// errClosed: the store is closed or has failed. Refused.
	errClosed error = failure.MetadataClosed
	// errUnknownOutcome: the command may have been applied, or may still be.
	errUnknownOutcome error = failure.CommandUnknown
	// ErrBehind: the command was applied, but not on this node yet.
	ErrBehind = fate.Mark(errors.New("metadata on this node is behind"), fate.Uncertain)
	// errLost: the store existed, and its files do not show its content.
	errLost              = fate.Mark(errors.New("metadata lost"), fate.Corrupt)
	errNotProposed error = failure.NotProposed
	// ErrOtherNode: the directory belongs to another node.
	ErrOtherNode = errors.New("metadata belongs to another node")
)

// proposeError converts an error of the consensus library into its meaning for the command.
func proposeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%w: %w", errBusy, err)
	}
	return fmt.Errorf("%w: %w", errUnknownOutcome, err)
}

func givenUp(ctx context.Context) error {
	return fmt.Errorf("%w: %w", errUnknownOutcome, context.Cause(ctx))
}

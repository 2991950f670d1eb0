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
	// errLost: the store existed, and its files do not show its content.
	errLost = fate.Mark(errors.New("metadata missing or unreadable"), fate.Corrupt)
	// ErrOtherNode: the directory belongs to another node.
	ErrOtherNode = errors.New("metadata belongs to another node")
)

// proposeError converts an error of the consensus library into its meaning for the command.
func proposeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w: %w", failure.NotController, err)
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("%w: %w", failure.MetadataBusy, err)
	}
	return fmt.Errorf("%w: %w", failure.CommandUnknown, err)
}

func givenUp(ctx context.Context) error {
	return fmt.Errorf("%w: %w", failure.CommandUnknown, context.Cause(ctx))
}

package raftstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Forward sends an encoded command to HandleForwarded of the metadata leader and returns its
// response. An error marked fate.Refused guarantees that the command did not arrive; after any
// other it may have.
type Forward func(ctx context.Context, leader meta.NodeID, command []byte) (answer []byte, err error)

// Propose commits a command, applies it on this node, and returns its result. A command refused
// by the state returns the sentinel of package meta. Concurrent commands share disk writes.
//
// Only the leader can propose. With Options.Forward, other nodes send the command to it, and a
// command without a leader is retried for ApplyTimeout; otherwise they return failure.NotController.
//
// An error whose fate is refused means that nothing was changed. failure.Behind means that the
// command was accepted, but its result is not known on this node yet. Any other wraps
// failure.CommandUnknown reports that the command may have been applied, or may still be.
func (s *Store) Propose(ctx context.Context, c meta.Command) (meta.Result, error) {
	if err := meta.Validate(c); err != nil {
		return meta.Result{}, err
	}
	command, err := meta.EncodeCommandAt(c, s.opts.Wall(time.Now()))
	if err != nil {
		return meta.Result{}, err
	}
	if s.opts.Forward == nil {
		return s.proposeHere(ctx, c, command)
	}
	timeout := time.NewTimer(s.opts.ApplyTimeout)
	defer timeout.Stop()
	for {
		moved := s.LeaderChanged()
		r, err := s.proposeOnce(ctx, c, command)
		if !errors.Is(err, failure.NotController) {
			return r, err
		}
		again := time.NewTimer(s.opts.HeartbeatTimeout / retriesPerHeartbeat)
		select {
		case <-moved:
		case <-again.C:
		case <-timeout.C:
			return r, err
		case <-ctx.Done():
			return r, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		case <-s.failed:
			return r, err
		case <-s.stop:
			return r, err
		}
		again.Stop()
	}
}

// proposeOnce proposes here or sends the command to the leader. failure.NotController
// means that it got nowhere.
func (s *Store) proposeOnce(ctx context.Context, c meta.Command, command []byte) (meta.Result, error) {
	if s.IsLeader() {
		return s.proposeHere(ctx, c, command)
	}
	if err := s.open(ctx); err != nil {
		return meta.Result{}, err
	}
	leader, ok := s.Leader()
	if !ok || leader == s.opts.NodeID {
		return meta.Result{}, failure.NotController
	}
	text, err := s.opts.Forward(ctx, leader, command)
	switch {
	case errors.Is(err, failure.NotController):
		return meta.Result{}, err
	case err != nil && fate.Of(err) == fate.Refused:
		return meta.Result{}, fmt.Errorf("%w: %w", failure.NotController, err)
	case err != nil:
		return meta.Result{}, fmt.Errorf("%w: %w", failure.CommandUnknown, err)
	}
	a, err := decodeAnswer(text)
	if err != nil {
		return meta.Result{}, fmt.Errorf("%w: %w", failure.CommandUnknown, err)
	}
	if a.Index == 0 {
		return meta.Result{}, a.err()
	}
	if err := s.catchUp(ctx, a.Index); err != nil {
		return meta.Result{Index: a.Index}, err
	}
	return s.machine.outcome(a)
}

// proposeHere commits the command c, encoded as command, on this node, which leads.
func (s *Store) proposeHere(ctx context.Context, c meta.Command, command []byte) (meta.Result, error) {
	if err := s.ready(ctx); err != nil {
		return meta.Result{}, err
	}
	if err := s.guard.reserve.admit(s.opts.NodeID, frees(c), len(command)); err != nil {
		return meta.Result{}, err
	}
	var f raft.ApplyFuture
	if err := s.flights.request(ctx, func() raft.Future {
		f = s.raft.Apply(command, s.opts.ApplyTimeout)
		return f
	}); err != nil {
		if cause := s.Err(); cause != nil {
			err = fmt.Errorf("%w: %w", err, cause)
		}
		return meta.Result{}, err
	}
	switch r := f.Response().(type) {
	case meta.Result:
		return r, r.Err
	case error:
		return meta.Result{}, fmt.Errorf("%w: %w", failure.CommandUnknown, r)
	}
	return meta.Result{}, failure.CommandUnknown
}

// HandleForwarded proposes a command of another node, and returns the encoded answer. It forwards
// nothing: if this node does not lead, the answer says so. The error is not nil only for bytes that
// are no command of this version; nothing was changed then. It retains no part of command.
//
// The time of the command becomes that of this node: the times in the metadata are the leader's.
func (s *Store) HandleForwarded(ctx context.Context, command []byte) ([]byte, error) {
	c, err := meta.DecodeCommand(command)
	if err != nil {
		return nil, fate.Mark(err, fate.Refused)
	}
	command = append([]byte(nil), command...)
	meta.StampCommand(command, s.opts.Wall(time.Now()))
	r, err := s.proposeHere(ctx, c, command)
	return encodeAnswer(r, err)
}

// catchUp returns once the command at index is applied on this node.
func (s *Store) catchUp(ctx context.Context, index uint64) error {
	for {
		changed := s.Changed()
		if s.Applied() >= index {
			return nil
		}
		var why error
		select {
		case <-changed:
			continue
		case <-ctx.Done():
			why = context.Cause(ctx)
		case <-s.failed:
			why = s.Err()
		case <-s.stop:
			why = failure.MetadataClosed
		}
		return fmt.Errorf("%w: %w", failure.Behind, why)
	}
}

// open returns why the store, or this caller, can do nothing more, or nil.
func (s *Store) open(ctx context.Context) error {
	if err := s.Err(); err != nil {
		return fmt.Errorf("%w: %w", failure.MetadataClosed, err)
	}
	select {
	case <-s.stop:
		return failure.MetadataClosed
	default:
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", failure.NotProposed, context.Cause(ctx))
	}
	return nil
}

// ready returns why this node cannot accept a command now, apart from a lack of space.
func (s *Store) ready(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	if s.raft.State() != raft.Leader {
		return failure.NotController
	}
	return nil
}

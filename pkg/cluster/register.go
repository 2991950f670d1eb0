package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// register has the cluster know of this start, and returns when the metadata
// here has it.
func (n *Node) register(ctx context.Context, unclean bool) error {
	empty, err := n.marks.has(markUnregistered)
	if err != nil {
		return err
	}
	command := meta.NodeStarted{Node: n.o.Node, Unclean: unclean, Empty: empty}
	for {
		index, err := n.tryRegister(ctx, command)
		if err == nil {
			err = n.catchUp(ctx, index)
		}
		if err == nil {
			break
		}
		if hopeless(err) || ctx.Err() != nil || n.Err() != nil {
			return fmt.Errorf("register this start: %w", errors.Join(err, n.Err()))
		}
		n.o.Logger.Debug("this start is not registered yet", "error", err)
		select {
		case <-time.After(registerAgain):
		case <-n.Failed():
		case <-ctx.Done():
		}
	}
	if _, err := n.store.Init(ctx); err != nil { // a founder that was killed has not named it
		return fmt.Errorf("name the cluster: %w", err)
	}
	if empty {
		return n.marks.clear(markUnregistered)
	}
	return nil
}

// tryRegister proposes the start until ctx ends or the node fails.
func (n *Node) tryRegister(ctx context.Context, c meta.NodeStarted) (index uint64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer n.onFailure(cancel)()
	r, err := n.store.Propose(ctx, c)
	if errors.Is(err, raftstore.ErrBehind) && r.Index > 0 {
		err = nil // it was taken in
	}
	return r.Index, err
}

// onFailure has cancel called when the node fails, until the returned function
// is called.
func (n *Node) onFailure(cancel context.CancelCauseFunc) (stop func()) {
	over := make(chan struct{})
	n.work.start(func() {
		select {
		case <-n.Failed():
			cancel(n.Err())
		case <-over:
		}
	})
	return func() { close(over) }
}

// hopeless says whether a registration will not do better when tried again.
func hopeless(err error) bool {
	for _, known := range []error{meta.ErrInvalidName, meta.ErrLimit, meta.ErrInvalidConfig, meta.ErrCommandTooLarge, raftstore.ErrRemoved} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// catchUp returns when the metadata here is at least at index.
func (n *Node) catchUp(ctx context.Context, index uint64) error {
	for {
		changed := n.store.Changed()
		if n.store.Applied() >= index {
			return nil
		}
		select {
		case <-changed:
		case <-n.Failed():
			return n.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

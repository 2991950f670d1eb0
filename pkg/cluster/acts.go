package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// RemoveMember permanently removes a node: from the metadata, which may refuse (see
// meta.RemoveNode), then from the Raft group. The node's process stops when it learns of it. After
// an error whose fate is not refused the removal may be partial; call it again.
func (n *Node) RemoveMember(ctx context.Context, c meta.RemoveNode) error {
	payload, err := json.Marshal(c)
	if err != nil {
		return fate.Mark(err, fate.Refused)
	}
	return acts{n.store, &n.calls}.atLeader(ctx, kindRemove, payload)
}

// TransferController transfers the controller role to another node.
func (n *Node) TransferController(ctx context.Context) error {
	return acts{n.store, &n.calls}.atLeader(ctx, kindTransfer, nil)
}

// acts are the operations that only the metadata leader can perform, and their calls to the
// leader.
type acts struct {
	store *raftstore.Store
	calls *calls
}

// atLeader makes the metadata leader perform an operation.
func (a acts) atLeader(ctx context.Context, kind uint8, payload []byte) error {
	if a.store.IsLeader() {
		_, err := a.carryOut(ctx, kind, payload)
		return err
	}
	leader, ok := a.store.Leader()
	if !ok {
		return failure.NotController
	}
	_, err := a.calls.ask(ctx, leader, kind, payload)
	return err
}

// carryOut performs an operation on the metadata leader.
func (a acts) carryOut(ctx context.Context, kind uint8, payload []byte) ([]byte, error) {
	switch kind {
	case kindRemove:
		var c meta.RemoveNode
		if err := meta.DecodeStrict(payload, &c); err != nil {
			return nil, fate.Mark(err, fate.Refused)
		}
		return nil, a.remove(ctx, c, payload)
	case kindTransfer:
		return nil, a.store.Members().Transfer(ctx)
	}
	return nil, fmt.Errorf("%w: %d", errUnknown, kind)
}

// remove carries out a removal, which was sent as payload.
func (a acts) remove(ctx context.Context, c meta.RemoveNode, payload []byte) error {
	if !a.store.IsLeader() {
		return failure.NotController
	}
	id := c.ID
	if id == a.calls.self {
		s := a.store.View()
		if err := s.Snapshot().Apply(s.Index()+1, c).Err; err != nil && !errors.Is(err, failure.NodeNotFound) {
			return fmt.Errorf("remove %s: %w", id, err) // the role stays
		}
		return a.leave(ctx, payload)
	}
	_, voting := a.store.Members().Configuration().Find(id)
	_, err := a.store.Propose(ctx, c)
	if errors.Is(err, failure.NodeNotFound) && voting {
		err = nil // an earlier attempt got this far
	}
	if err == nil && voting {
		err = a.store.Members().Remove(ctx, id)
	}
	if err != nil {
		return fate.Mark(failure.About("remove "+string(id), err), fate.Of(err))
	}
	return nil
}

// leave transfers the leadership to another node, which then removes this one. The library stops a
// leader that removes itself, at times before it has reported the outcome of the change.
func (a acts) leave(ctx context.Context, payload []byte) error {
	self := a.calls.self
	if err := a.store.Members().Transfer(ctx); err != nil {
		return fate.Mark(fmt.Errorf("remove %s: %w", self, err), fate.Refused)
	}
	for {
		moved := a.store.LeaderChanged()
		if leader, ok := a.store.Leader(); ok && leader != self {
			_, err := a.calls.ask(ctx, leader, kindRemove, payload)
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fate.Mark(fmt.Errorf("remove %s: %w", self, context.Cause(ctx)), fate.Refused)
		}
	}
}

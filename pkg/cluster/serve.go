package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/peer"
)

// admit decides about a connection that another node makes. The transport has
// seen to it that both are of one cluster, where both are of any.
func (n *Node) admit(h *peer.Hello) peer.Reason {
	switch h.Class {
	case peer.ClassReplication:
		if n.handlers.Load() == nil {
			return peer.ReasonClass // the sender is told when that changes
		}
		if !n.roster.knows(meta.NodeID(h.Node)) {
			return peer.ReasonUnknownNode
		}
	case peer.ClassRaft:
		// A node that was away need not know the leader of today yet.
	case peer.ClassForward:
		// Who is no member may ask to become one. handle looks at the rest.
	case peer.ClassPing:
	}
	return peer.ReasonNone
}

// event hears of connections. It must not block.
func (n *Node) event(e peer.Event) {
	n.roster.event(e)
	from := meta.NodeID(e.Node)
	switch {
	case e.Kind == peer.EventDown && e.Inbound && e.Class == peer.ClassForward:
		if h := n.handlers.Load(); h != nil && h.ForwardDown != nil {
			h.ForwardDown(from, e.Session)
		}
	case (e.Kind == peer.EventDown || e.Kind == peer.EventRefused) && !e.Inbound && e.Class == peer.ClassForward:
		n.alarm.fire()
		n.suspect(from)
	case (e.Kind == peer.EventRejected || e.Kind == peer.EventBadHello) && n.rejected.isNew(&e):
		n.o.Logger.Warn("a connection between nodes is refused", "node", e.Node, "address", e.Address, "class", e.Class.String(), "inbound", e.Inbound, "error", e.Err)
	}
}

// maxComplaints is how many different refusals are told of: strangers choose the
// names of nodes.
const maxComplaints = 64

// complaints remembers which refusals were told of: attempts to connect are
// repeated for as long as somebody makes them.
type complaints struct {
	mu   sync.Mutex // guards told
	told map[complaint]bool
}

type complaint struct {
	node    peer.Node
	inbound bool
	reason  peer.Reason
}

// isNew says whether a refusal is worth telling.
func (c *complaints) isNew(e *peer.Event) bool {
	k := complaint{node: e.Node, inbound: e.Inbound}
	if refused, ok := errors.AsType[*peer.RefusedError](e.Err); ok {
		k.reason = refused.Reason
	}
	if k.reason == peer.ReasonClass || k.reason == peer.ReasonSelf {
		return false // a node that is starting, or an address that is its own
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told[k] || len(c.told) >= maxComplaints {
		return false
	}
	if c.told == nil {
		c.told = map[complaint]bool{}
	}
	c.told[k] = true
	return true
}

// replicationHandler takes the calls of class replication.
type replicationHandler struct{ n *Node }

// Handle implements peer.Handler.
func (r replicationHandler) Handle(from peer.Node, _ uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
	h := r.n.handlers.Load()
	if h == nil || h.Replicate == nil {
		reply(nil, wireErrors.ToRemote(ErrNotServing))
		return
	}
	h.Replicate(meta.NodeID(from), kind, bytes.Clone(payload), func(answer []byte) { reply([][]byte{answer}, nil) })
}

// forwardHandler takes the calls of class forward.
type forwardHandler struct{ n *Node }

// Handle implements peer.Handler.
func (f forwardHandler) Handle(from peer.Node, session uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
	f.n.handle(meta.NodeID(from), session, kind, bytes.Clone(payload), reply)
}

// handle answers a request, or hands it on. It does not block. payload is its to
// keep.
func (n *Node) handle(from meta.NodeID, session uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
	h := n.handlers.Load()
	switch {
	case kind < firstOfForward:
		n.handleOwn(from, kind, payload, reply)
	case !n.roster.knows(from):
		reply(nil, wireErrors.ToRemote(fmt.Errorf("%w: %s", ErrUnknownNode, from)))
	case h == nil || h.Forward == nil:
		reply(nil, wireErrors.ToRemote(ErrNotServing))
	default:
		h.Forward(from, session, kind, payload, reply)
	}
}

// handleOwn answers a request of this package's own.
func (n *Node) handleOwn(from meta.NodeID, kind uint8, payload []byte, reply func([][]byte, error)) {
	switch kind {
	case kindWho:
		reply([][]byte{binary.LittleEndian.AppendUint64(nil, n.incarnation())}, nil)
		return
	case kindHere:
		n.roster.hurry(from)
		reply(nil, nil)
		return
	}
	select {
	case n.requests <- struct{}{}:
	default:
		reply(nil, wireErrors.ToRemote(ErrBusy))
		return
	}
	if !n.work.start(func() {
		defer func() { <-n.requests }()
		ctx, cancel := context.WithTimeout(n.work.ctx, requestTimeout)
		defer cancel()
		answer, err := n.answerOwn(ctx, from, kind, payload)
		if err != nil {
			reply(nil, wireErrors.ToRemote(err))
			return
		}
		reply([][]byte{answer}, nil)
	}) {
		<-n.requests
		reply(nil, wireErrors.ToRemote(ErrClosed))
	}
}

// answerOwn does what a request asks for.
func (n *Node) answerOwn(ctx context.Context, from meta.NodeID, kind uint8, payload []byte) ([]byte, error) {
	if kind == kindForm {
		return n.formation.Handle(ctx, payload)
	}
	s := n.opened.Load()
	if s == nil {
		return nil, ErrNotServing
	}
	if _, ok := s.Members().Configuration().Find(from); !ok && s.IsLeader() {
		return nil, fmt.Errorf("node %s: %w", from, raftstore.ErrRemoved)
	}
	if kind == kindCommand {
		return s.HandleForwarded(ctx, payload)
	}
	return n.carryOut(ctx, kind, payload)
}

// incarnation returns the incarnation that this process is registered as, and 0
// while it does not serve.
func (n *Node) incarnation() uint64 {
	s := n.opened.Load()
	if s == nil || n.handlers.Load() == nil {
		return 0
	}
	if self := s.Node(n.o.Self); self != nil {
		return self.Incarnation
	}
	return 0
}

package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/peer"
)

// callServer answers the cluster calls of other nodes, or passes them on.
type callServer struct {
	self       meta.NodeID
	roster     *roster
	formation  *formation.Node
	calls      *calls
	role       *controllerRole
	succession *succession
	work       *tasks
	log        *slog.Logger
	opened     atomic.Pointer[raftstore.Store] // nil: not opened
	handlers   atomic.Pointer[Handlers]        // nil: the node does not serve
	requests   chan struct{}                   // holds one for each request in progress
	rejected   complaints
	clock      *age.Agreed
	stalled    atomic.Bool // a disk does not respond: see Options.DiskSilent
}

// admit decides about a connection from another node. The transport has checked that both nodes
// are in the same cluster, if both are in one.
func (c *callServer) admit(h *peer.Hello) peer.Reason {
	switch h.Class {
	case peer.ClassReplication:
		if c.handlers.Load() == nil {
			return peer.ReasonClass // the sender is notified when that changes
		}
		return c.vouch(h.Node)
	case peer.ClassForward:
		return c.vouch(h.Node)
	case peer.ClassRaft:
		// A node that was away may not know the current leader yet. While it hears from a leader,
		// nodes that it does not know are not members.
		s := c.formation.Store()
		if s == nil {
			return peer.ReasonClass
		}
		if _, known := s.Leader(); known {
			return c.vouch(h.Node)
		}
	case peer.ClassForm, peer.ClassPing: // for all nodes
	}
	return peer.ReasonNone
}

// vouch reports whether a node is a member.
func (c *callServer) vouch(node peer.Node) peer.Reason {
	id := meta.NodeID(node)
	if c.roster.knows(id) {
		return peer.ReasonNone
	}
	if s := c.formation.Store(); s != nil { // the roster is updated a moment later
		if _, ok := s.Members().Configuration().Find(id); ok {
			return peer.ReasonNone
		}
	}
	return peer.ReasonUnknownNode
}

// event handles events of connections. It must not block.
func (c *callServer) event(e peer.Event) {
	c.roster.event(e)
	from := meta.NodeID(e.Node)
	switch {
	case e.Kind == peer.EventDown && e.Inbound && e.Class == peer.ClassForward:
		if h := c.handlers.Load(); h != nil && h.ForwardDown != nil {
			h.ForwardDown(from, e.Session)
		}
	case (e.Kind == peer.EventDown || e.Kind == peer.EventRefused) && !e.Inbound && e.Class == peer.ClassForward:
		c.role.alarm.Fire()
		c.role.suspect(from)
		if e.Kind == peer.EventRefused {
			c.succession.suspect(from, refusing)
		}
	case e.Kind == peer.EventRejected || e.Kind == peer.EventBadHello:
		c.rejected.tell(c.log, &e, time.Now())
	case e.Kind == peer.EventAccept:
		c.rejected.book.Warn(c.log, time.Now(), "cannot accept cluster connection; retrying: other nodes cannot connect, and take this one for down", "address", e.Address, "error", e.Err)
	}
}

// maxComplaints is the maximum number of different refusals that are logged, because strangers
// choose the names of nodes.
const maxComplaints = 64

// strangeFor is how long a node must have been unknown before its refusal is logged: a node that
// was just admitted is known to all members a moment later.
const strangeFor = 3 * time.Second

// complaints logs refusals: each once, since connection attempts repeat, and only a few per
// second, since strangers may cause any number. An omitted refusal is logged when it is repeated.
type complaints struct {
	book complaint.Book

	mu    sync.Mutex // guards the fields below
	first map[rejection]time.Time
	told  map[rejection]bool
}

type rejection struct {
	node    peer.Node
	inbound bool
	reason  peer.Reason
}

// tell logs a refusal if necessary.
func (c *complaints) tell(log *slog.Logger, e *peer.Event, now time.Time) {
	k := rejection{node: e.Node, inbound: e.Inbound}
	if refused, ok := errors.AsType[*peer.RefusedError](e.Err); ok {
		k.reason = refused.Reason
	}
	if !c.isNew(k, now) || !c.book.Warn(log, now, "cluster connection refused",
		"node", string(e.Node), "address", e.Address, "class", e.Class, "inbound", e.Inbound, "error", e.Err) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told[k] = true
}

// isNew reports whether a refusal should be logged.
func (c *complaints) isNew(k rejection, now time.Time) bool {
	if k.reason == peer.ReasonClass || k.reason == peer.ReasonSelf {
		return false // a node that is starting, or this node's own address
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	first, known := c.first[k]
	if c.told[k] || !known && len(c.first) >= maxComplaints {
		return false
	}
	if c.told == nil {
		c.first, c.told = map[rejection]time.Time{}, map[rejection]bool{}
	}
	if !known {
		first = now
		c.first[k] = first
	}
	return k.reason != peer.ReasonUnknownNode || now.Sub(first) >= strangeFor
}

// replicationHandler handles the calls of class replication.
type replicationHandler struct{ server *callServer }

// Handle implements peer.Handler.
func (r replicationHandler) Handle(from peer.Node, session uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
	r.HandleBy(nil, from, session, kind, payload, reply)
}

// HandleBy implements peer.GatheringHandler.
func (r replicationHandler) HandleBy(by peer.Gatherer, from peer.Node, _ uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
	h := r.server.handlers.Load()
	if h == nil || h.Replicate == nil {
		reply(nil, forward.ToRemote(failure.NotServing))
		return
	}
	h.Replicate(by, meta.NodeID(from), kind, bytes.Clone(payload), func(answer []byte) { reply([][]byte{answer}, nil) })
}

// forwardHandler handles the calls of class forward.
type forwardHandler struct{ server *callServer }

// Handle implements peer.Handler.
func (f forwardHandler) Handle(from peer.Node, session uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
	f.server.handle(meta.NodeID(from), session, kind, bytes.Clone(payload), reply)
}

// formHandler handles the calls of class formation, of which there is one.
type formHandler struct{ server *callServer }

// Handle implements peer.Handler.
func (f formHandler) Handle(from peer.Node, _ uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
	if kind != kindForm {
		reply(nil, forward.ToRemote(errUnknown))
		return
	}
	text := bytes.Clone(payload)
	f.server.answer(reply, func(ctx context.Context) ([]byte, error) {
		return f.server.formation.Handle(ctx, meta.NodeID(from), text)
	})
}

// handle answers a request, or passes it on. It does not block. It owns payload.
func (c *callServer) handle(from meta.NodeID, session uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
	h := c.handlers.Load()
	switch {
	case kind < firstOfForward:
		c.handleOwn(from, kind, payload, reply)
	case !c.roster.knows(from):
		reply(nil, forward.ToRemote(fmt.Errorf("%w: %s", failure.UnknownNode, from)))
	case h == nil || h.Forward == nil:
		reply(nil, forward.ToRemote(failure.NotServing))
	default:
		h.Forward(from, session, kind, payload, reply)
	}
}

// handleOwn answers a request of this package.
func (c *callServer) handleOwn(from meta.NodeID, kind uint8, payload []byte, reply func([][]byte, error)) {
	switch kind {
	case kindWho:
		reply([][]byte{binary.LittleEndian.AppendUint64(nil, c.incarnation())}, nil)
		return
	case kindHere:
		c.roster.hurry(from)
		reply(nil, nil)
		return
	case kindGone, kindSilent:
		var last uint64
		err := error(failure.NotServing)
		if s := c.opened.Load(); s != nil {
			last, err = unheard(s, meta.NodeID(payload), suspicion(kind).unheard(s))
		}
		if err != nil {
			reply(nil, forward.ToRemote(err))
			return
		}
		reply([][]byte{binary.LittleEndian.AppendUint64(nil, last)}, nil)
		return
	}
	c.answer(reply, func(ctx context.Context) ([]byte, error) { return c.answerOwn(ctx, from, kind, payload) })
}

// diskSilent records for how long a disk of this node has not responded: see Options.DiskSilent. The
// controller role is transferred first, because a metadata leader whose write hangs cannot do that. A
// new controller keeps it until the timeout: all disks may be slow, and the successor's as well.
func (c *callServer) diskSilent(silent, timeout time.Duration) {
	c.stalled.Store(silent >= timeout)
	if silent >= timeout || silent >= timeout/2 && c.role.mayYield() {
		c.role.yield("a disk of this node does not respond")
	}
}

// answer performs a request on a goroutine, unless too many are in progress.
func (c *callServer) answer(reply func([][]byte, error), do func(context.Context) ([]byte, error)) {
	select {
	case c.requests <- struct{}{}:
	default:
		reply(nil, forward.ToRemote(failure.ClusterBusy))
		return
	}
	if !c.work.start(func() {
		defer func() { <-c.requests }()
		ctx, cancel := context.WithTimeout(c.work.ctx, requestTimeout)
		defer cancel()
		answer, err := do(ctx)
		if err != nil {
			reply(nil, forward.ToRemote(err))
			return
		}
		reply([][]byte{answer}, nil)
	}) {
		<-c.requests
		reply(nil, forward.ToRemote(errClosed))
	}
}

// answerOwn performs a request of this package.
func (c *callServer) answerOwn(ctx context.Context, from meta.NodeID, kind uint8, payload []byte) ([]byte, error) {
	s := c.opened.Load()
	if s == nil {
		return nil, failure.NotServing
	}
	if _, ok := s.Members().Configuration().Find(from); !ok && s.IsLeader() {
		return nil, fmt.Errorf("node %s: %w", from, failure.Removed)
	}
	switch kind {
	case kindCommand:
		return s.HandleForwarded(ctx, payload)
	case kindStanding:
		return c.standing(s, from, payload)
	}
	return acts{s, c.calls}.carryOut(ctx, kind, payload)
}

// incarnation returns the registered incarnation of this process, or 0 while it does not serve, as
// while its disk does not respond.
func (c *callServer) incarnation() uint64 {
	s := c.opened.Load()
	if s == nil || c.handlers.Load() == nil || c.stalled.Load() {
		return 0
	}
	if self := s.Node(c.self); self != nil {
		return self.Incarnation
	}
	return 0
}

package cluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/peer"
)

// Kinds of calls on peer.ClassForward that belong to this package. Numbers are never reused.
const (
	kindCommand  uint8 = 1 // a command for the metadata leader -> its outcome
	kindForm     uint8 = 2 // of package formation; the only kind of class formation, and only used there
	kindWho      uint8 = 3 // -> incarnation, u64 little-endian; 0: does not serve
	kindHere     uint8 = 4 // the sender serves from now on
	kindRemove   uint8 = 5 // a meta.RemoveNode (JSON): the metadata leader carries it out
	kindTransfer uint8 = 6 // the metadata leader transfers its leadership
	kindGone     uint8 = 7 // the metadata leader's id -> end of the log, u64 little-endian, if the leader was not heard from
	kindStanding uint8 = 8 // an age.Report -> raftstore.Standing of the metadata's leader and its age.Answer: see clock.go
	kindSilent   uint8 = 9 // like kindGone, if the leader was not heard from for much longer

	firstOfForward = forward.KindPublish
)

// calls makes cluster calls to other nodes, and to this one.
type calls struct {
	self   meta.NodeID
	roster *roster
	loop   *line // for calls to this node
	answer func(from meta.NodeID, session uint64, kind uint8, payload []byte, reply func([][]byte, error))
}

// Go calls another node, or this one, without waiting. Calls to one node arrive in call order.
// payload must not be modified until done is called, exactly once, from any goroutine and never
// inside Go; done must not block. An error marked fate.Refused means that the call had no
// effect; after others it may have been carried out.
func (c *calls) Go(node meta.NodeID, kind uint8, payload [][]byte, done func(reply []byte, err error)) {
	if node == c.self {
		c.loop.later(func() { c.callSelf(kind, bytes.Join(payload, nil), done) })
		return
	}
	if l := c.roster.find(lineKey{node, peer.ClassForward}); l != nil {
		l.call(kind, payload, done)
		return
	}
	c.loop.later(func() { done(nil, fmt.Errorf("%w: %s", failure.UnknownNode, node)) })
}

// callSelf makes a call to this node.
func (c *calls) callSelf(kind uint8, payload []byte, done func([]byte, error)) {
	c.answer(c.self, 0, kind, payload, func(reply [][]byte, err error) {
		if err != nil {
			if _, ok := errors.AsType[*peer.RemoteError](err); !ok {
				err = &peer.RemoteError{Text: err.Error()}
			}
			done(nil, err)
			return
		}
		done(bytes.Join(reply, nil), nil)
	})
}

// Call is like Go and waits. If ctx ends first, the call may still be carried out, and payload
// must never be modified again. The caller owns the response.
func (c *calls) Call(ctx context.Context, node meta.NodeID, kind uint8, payload [][]byte) ([]byte, error) {
	return peer.Await(ctx, func(done func([]byte, error)) { c.Go(node, kind, payload, done) })
}

// ask makes a call of this package.
func (c *calls) ask(ctx context.Context, node meta.NodeID, kind uint8, payload []byte) ([]byte, error) {
	reply, err := c.Call(ctx, node, kind, [][]byte{payload})
	return reply, forward.FromRemote(err)
}

// forwardCommand is the store's raftstore.Forward.
func (n *Node) forwardCommand(ctx context.Context, leader meta.NodeID, command []byte) ([]byte, error) {
	return n.ask(ctx, leader, kindCommand, command)
}

// askStanding is the store's raftstore.Ask. A leader that does not answer in time is suspected to
// be dead.
func (n *Node) askStanding(ctx context.Context, leader meta.NodeID) (raftstore.Standing, error) {
	late := time.AfterFunc(unanswered, func() { n.server.succession.suspect(leader, silent) })
	defer late.Stop()
	sent := time.Now()
	reply, err := n.ask(ctx, leader, kindStanding, encodeReport(n.clock.Report(string(leader))))
	if err != nil {
		return raftstore.Standing{}, err
	}
	standing, answer, err := decodeStanding(reply)
	if err == nil {
		n.clock.Heard(string(leader), sent, time.Now(), answer)
	}
	return standing, err
}

// callAddress is formation's Call.
func (n *Node) callAddress(ctx context.Context, to meta.NodeID, address string, request []byte) ([]byte, error) {
	if address == n.o.Address {
		return nil, formation.ErrSelf
	}
	p := n.transport.Peer(peer.Node(to), peer.ClassForm, address)
	defer p.Close()
	reply, err := p.Call(ctx, kindForm, [][]byte{request})
	if refused, ok := errors.AsType[*peer.RefusedError](err); ok {
		switch refused.Reason { //nolint:exhaustive // the others are what they claim
		case peer.ReasonSelf:
			return nil, formation.ErrSelf
		case peer.ReasonNameTaken:
			return nil, fmt.Errorf("%w (the other one runs at %s)", formation.ErrNodeIDTaken, address)
		case peer.ReasonWrongCluster:
			return nil, fmt.Errorf("%w: %w", formation.ErrOtherCluster, refused)
		}
	}
	return reply, forward.FromRemote(err)
}

// incarnationIn reads the answer to kindWho.
func incarnationIn(reply []byte) (uint64, error) {
	if len(reply) != 8 {
		return 0, fmt.Errorf("malformed incarnation of %d bytes", len(reply))
	}
	return binary.LittleEndian.Uint64(reply), nil
}

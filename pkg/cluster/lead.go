package cluster

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/brokerd/brokerd/pkg/coord/controller"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/peer"
)

// suspectsKept is how many nodes may wait to be looked at by the controller.
const suspectsKept = 16

// errDeposed ends a controller whose node leads the metadata no longer.
var errDeposed = errors.New("another node leads the metadata")

// lead is the controller for as long as this node leads the metadata, again and
// again until the Node is closed.
func (n *Node) lead() {
	ctx := n.work.ctx
	for ctx.Err() == nil {
		moved := n.store.LeaderChanged()
		if n.store.IsLeader() {
			n.leadOnce(ctx)
			continue
		}
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
}

// leadOnce is the controller until this node leads the metadata no longer.
func (n *Node) leadOnce(ctx context.Context) {
	ctx, depose := context.WithCancelCause(ctx)
	defer depose(nil)
	n.work.start(func() { n.awaitDeposition(ctx, depose) })
	if n.store.Barrier(ctx) != nil { // deposed before it knew all that was agreed on
		return
	}
	n.o.Logger.Info("this node is the controller")
	changed := make(chan struct{}, 1)
	n.work.start(func() { n.tellChanges(ctx, changed) })
	loop := controller.Loop{
		Options: n.o.Controller, Self: n.o.Self, Cluster: (*controlled)(n), Changed: changed, Suspects: n.suspects,
	}
	err := loop.Run(ctx)
	n.decision.Store(nil)
	n.o.Logger.Info("this node is not the controller any more", "reason", err)
}

// awaitDeposition ends the controller when another node leads.
func (n *Node) awaitDeposition(ctx context.Context, depose context.CancelCauseFunc) {
	for ctx.Err() == nil {
		moved := n.store.LeaderChanged()
		if !n.store.IsLeader() {
			depose(errDeposed)
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
}

// tellChanges passes on that the metadata has changed.
func (n *Node) tellChanges(ctx context.Context, changed chan<- struct{}) {
	for {
		next := n.store.Changed()
		select {
		case changed <- struct{}{}:
		default: // one waits already
		}
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// Controller returns the last decision of the controller that was carried out or
// had other troubles than the one before, while this node is the controller.
func (n *Node) Controller() (controller.Decision, bool) {
	if d := n.decision.Load(); d != nil {
		return *d, true
	}
	return controller.Decision{}, false
}

// suspect has the controller, if it is here, look at a node now.
func (n *Node) suspect(id meta.NodeID) {
	select {
	case n.suspects <- id:
	default: // it is looked at soon anyway
	}
}

// controlled is what the controller acts on: a controller.Cluster.
type controlled Node

// State implements controller.Cluster.
func (c *controlled) State() *meta.State { return c.store.View() }

// Observe implements controller.Cluster.
func (c *controlled) Observe(d controller.Decision) {
	c.decision.Store(&d)
	for _, v := range d.Verdicts {
		c.o.Logger.Info("a node's state changes", "node", v.Node, "incarnation", v.Incarnation, "alive", v.Alive, "why", v.Why)
	}
	c.o.Observe(d)
}

// Probe implements controller.Cluster. A node is asked over the connection that
// there is. Without one it is asked who it is over a connection of its own, since
// the other's attempts have pauses between them.
func (c *controlled) Probe(ctx context.Context, node *meta.Node) (incarnation uint64, err error) {
	n := (*Node)(c)
	l := n.roster.line(node.ID, peer.ClassForward)
	if !l.connected() {
		pong, err := n.transport.Ping(ctx, node.ClusterAddress)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return 0, fmt.Errorf("%w: %w", controller.ErrRefusedConnection, err)
		case err != nil:
			return 0, err
		case meta.NodeID(pong.Node) != node.ID:
			return 0, fmt.Errorf("%s answers in the place of %s", pong.Node, node.ID)
		}
		l.hurry()
	}
	reply, err := n.Call(ctx, node.ID, kindWho, nil)
	if err != nil {
		return 0, err
	}
	return incarnationIn(reply)
}

// Propose implements controller.Cluster.
func (c *controlled) Propose(ctx context.Context, command meta.Command) (meta.Result, error) {
	n := (*Node)(c)
	if elect, ok := command.(meta.ElectLeaders); ok {
		return n.elect(ctx, elect)
	}
	return n.propose(ctx, command)
}

func (n *Node) propose(ctx context.Context, command meta.Command) (meta.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	return n.store.Propose(ctx, command)
}

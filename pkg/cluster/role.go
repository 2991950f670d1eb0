package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/age"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/peer"
)

// suspectsKept is the maximum number of suspected nodes that wait for the controller.
const suspectsKept = 16

// leadAgain is the delay between two attempts to become the controller.
const leadAgain = 20 * time.Millisecond

// errDeposed ends a controller whose node no longer leads the metadata.
var errDeposed = errors.New("this node no longer leads the metadata")

// controllerRole is the controller role of a node that leads the metadata: a controller.Cluster.
type controllerRole struct {
	self      meta.NodeID
	clock     *age.Agreed
	options   controller.Options
	observe   func(controller.Decision)
	proposed  func(meta.Command, meta.Result)
	store     *raftstore.Store
	transport *peer.Transport
	calls     *calls
	work      *tasks
	log       *slog.Logger
	trash     controller.Expiry // when deleted topics are purged: it sees deletions while this node does not lead

	serving       atomic.Bool // the node has started
	yielding      atomic.Bool // the role is being transferred: a disk does not respond, or most voters
	complaints    complaint.Book
	since         atomic.Pointer[time.Time]           // when this node became the controller; nil: it is not
	decision      atomic.Pointer[controller.Decision] // the last decision; nil: not the controller
	suspects      chan meta.NodeID                    // to probe
	alarm         signal.Signal                       // a connection to a member broke
	transferTries transferTries                       // with leaders that are asked for transfers
}

// lead runs the controller whenever this node leads the metadata, until the Node is closed.
func (c *controllerRole) lead() {
	ctx := c.work.ctx
	c.observeTrash()
	c.serving.Store(true)
	var former meta.NodeID // the previous leader
	for ctx.Err() == nil {
		moved := c.store.LeaderChanged()
		if c.store.IsLeader() {
			c.leadOnce(ctx, c.former(former))
			former = ""
			beat.Pause(ctx, leadAgain) // while it transfers the leadership, it may still seem to lead
			continue
		}
		if leader, known := c.store.Leader(); known && leader != c.self {
			former = leader
		}
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
}

// changed is called after each change of the metadata. While the node starts, it does nothing: the
// metadata that it reads then is old.
func (c *controllerRole) changed() {
	if c.serving.Load() {
		c.observeTrash()
	}
}

func (c *controllerRole) observeTrash() {
	now := time.Now()
	c.trash.Observe(c.store.View(), now, c.clock.Read(now))
}

// former returns the known state of the previous controller: its registration before this node
// proposes anything.
func (c *controllerRole) former(id meta.NodeID) controller.Former {
	n, heard := c.store.Node(id), c.store.Members().LeaderContact()
	if n == nil || heard.IsZero() {
		return controller.Former{}
	}
	return controller.Former{Node: id, Incarnation: n.Incarnation, Heard: heard}
}

// leadOnce runs the controller until this node no longer leads the metadata.
func (c *controllerRole) leadOnce(ctx context.Context, former controller.Former) {
	ctx, depose := context.WithCancelCause(ctx)
	defer depose(nil)
	c.since.Store(new(time.Now()))
	defer c.since.Store(nil)
	c.work.start(func() { c.awaitDeposition(ctx, depose) })
	if c.store.Barrier(ctx) != nil { // deposed before it had applied all committed entries
		return
	}
	c.log.Info("became controller")
	changed := make(chan struct{}, 1)
	c.work.start(func() { c.tellChanges(ctx, changed) })
	loop := controller.Loop{
		Options: c.options, Self: c.self, Former: former, Cluster: c, Trash: &c.trash, Changed: changed, Suspects: c.suspects,
		Clock: c.clock.Read,
	}
	err := loop.Run(ctx)
	c.decision.Store(nil)
	c.log.Info("no longer controller", "reason", err)
}

// awaitDeposition ends the controller when another node leads.
func (c *controllerRole) awaitDeposition(ctx context.Context, depose context.CancelCauseFunc) {
	for ctx.Err() == nil {
		moved := c.store.LeaderChanged()
		if !c.store.IsLeader() {
			depose(errDeposed)
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
}

// tellChanges forwards changes of the metadata.
func (c *controllerRole) tellChanges(ctx context.Context, changed chan<- struct{}) {
	for {
		next := c.store.Changed()
		signal.Poke(changed)
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// suspect requests a probe of a node, if the controller runs here.
func (c *controllerRole) suspect(id meta.NodeID) {
	select {
	case c.suspects <- id:
	default: // it is probed soon anyway
	}
}

// Voters implements controller.Cluster.
func (c *controllerRole) Voters() []meta.NodeID { return c.store.Members().Configuration().Voters() }

// Skews implements controller.Cluster.
func (c *controllerRole) Skews() map[meta.NodeID]time.Duration {
	now := time.Now()
	out := map[meta.NodeID]time.Duration{c.self: c.clock.Skew(now)}
	for id, d := range c.clock.Skews(now) {
		out[meta.NodeID(id)] = d
	}
	return out
}

// Isolated implements controller.Cluster. The voters confirm that this node leads, so a controller
// elsewhere can reach them.
func (c *controllerRole) Isolated() {
	if !c.mayYield() {
		return
	}
	c.complaints.Warn(c.log, time.Now(), "most voters respond to heartbeats but not to probes, as if the network lost large packets from this node: "+
		"no silent node counts as down, and the controller role is transferred")
	c.yield("most voters do not respond to probes")
}

// mayYield reports whether this node has been the controller for long enough to transfer the role
// because its disk is slow, or most voters do not respond.
func (c *controllerRole) mayYield() bool {
	since := c.since.Load()
	return since != nil && time.Since(*since) >= yieldFirst
}

// yield transfers the controller role, if this node has it and no transfer is in progress. It does
// not wait.
func (c *controllerRole) yield(why string) {
	if !c.store.IsLeader() || c.yielding.Swap(true) {
		return
	}
	if !c.work.start(func() {
		defer c.yielding.Store(false)
		ctx, cancel := context.WithTimeout(c.work.ctx, transferTimeout)
		defer cancel()
		if err := c.store.Members().YieldLead(ctx); err != nil {
			c.log.Warn("controller role not transferred; retrying", "why", why, "error", err)
			beat.Pause(c.work.ctx, yieldAgain) // the time of ctx may be over
		}
	}) {
		c.yielding.Store(false)
	}
}

// State implements controller.Cluster.
func (c *controllerRole) State() *meta.State { return c.store.View() }

// Observe implements controller.Cluster.
func (c *controllerRole) Observe(d controller.Decision) {
	c.decision.Store(&d)
	for _, v := range d.Verdicts {
		c.log.Info("node liveness changed", "node", v.Node, "incarnation", v.Incarnation, "alive", v.Alive, "why", v.Why)
	}
	c.observe(d)
}

// Probe implements controller.Cluster. It uses the existing connection to the node. Without one,
// it identifies the node over a new connection, because the existing reconnect attempts have
// pauses.
func (c *controllerRole) Probe(ctx context.Context, node *meta.Node) (incarnation uint64, err error) {
	l := c.calls.roster.line(node.ID, peer.ClassForward)
	if !l.connected() {
		pong, err := c.transport.Ping(ctx, node.ClusterAddress)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return 0, fmt.Errorf("%w: %w", controller.ErrRefusedConnection, err)
		case err != nil:
			return 0, err
		case meta.NodeID(pong.Node) != node.ID:
			return 0, fmt.Errorf("%s responds at the address of %s", pong.Node, node.ID)
		}
		l.hurry()
	}
	reply, err := c.calls.Call(ctx, node.ID, kindWho, nil)
	if err != nil {
		return 0, err
	}
	return incarnationIn(reply)
}

// Propose implements controller.Cluster.
func (c *controllerRole) Propose(ctx context.Context, command meta.Command) (meta.Result, error) {
	if elect, ok := command.(meta.ElectLeaders); ok {
		return c.elect(ctx, elect)
	}
	return c.propose(ctx, command)
}

func (c *controllerRole) propose(ctx context.Context, command meta.Command) (meta.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	r, err := c.store.Propose(ctx, command)
	if err == nil {
		c.proposed(command, r)
	}
	return r, err
}

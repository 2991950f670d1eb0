package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/internal/fan"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/cluster/controller"
	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/trace"
)

// Members gives access to the members of the metadata's Raft group, and to what only its leader
// knows. Its methods are safe for concurrent use.
type Members interface {
	// Members returns the members as known on this node.
	Members() raftstore.Configuration
	// RemoveMember permanently removes a node: from the metadata, which may refuse (see
	// meta.RemoveNode), then from the Raft group.
	RemoveMember(ctx context.Context, c meta.RemoveNode) error
	// TransferController transfers the controller role to another voter.
	TransferController(ctx context.Context) error
	// Controller returns the last decision while this node is the controller.
	Controller() (controller.Decision, bool)
	// Answers reports whether there is a connection to another node.
	Answers(id meta.NodeID) bool
}

// Bounds of operator requests to other nodes.
const (
	// askTimeout bounds one node's answer to a question that should take no time. Answers for
	// people omit what is missing then.
	askTimeout = 2 * time.Second
	// askTogether is how many questions are open at a time.
	askTogether = 32
	// askAgain is how often a request is repeated at a partition's new leader, and askPause the
	// delay in between.
	askAgain = 5
	askPause = 100 * time.Millisecond
)

// Operator carries out cluster-wide requests on any node: it changes the metadata and calls the
// nodes concerned.
type Operator struct{ node *Node }

// Contents is the part for messages, channels, counts and copies.
type Contents struct{ node *Node }

// Node sends questions to other nodes and answers theirs.
type Node struct {
	Options
	host   *host.Host
	topics *directory.Directory
}

// Options are the dependencies of this package.
type Options struct {
	Self      meta.NodeID
	Meta      *raftstore.Store
	Calls     forward.Caller // to other nodes
	Agreement Members        // nil: this node has no cluster
	Log       *slog.Logger
	Letters   *deadletter.Worker // of this node
	Trace     *trace.Store       // of this node; nil: it records none
	// MaxMessage is the size in bytes of the largest message that this node takes from its clients.
	MaxMessage int
	Process    Process // of this node; nil: it has no settings
	// OtherClusters returns the join addresses that belong to another cluster than this node; nil: none.
	OtherClusters func() []string
	// Skew returns how far this node's wall clock is ahead of those of most nodes; nil: it is alone.
	Skew func(now time.Time) time.Duration
	// Certificates returns those that the process shows to others; nil: none.
	Certificates func() []health.Certificate
	// Awaited returns the nodes with which this node has bootstrapped the cluster and which have not
	// joined it yet. nil: there are none.
	Awaited func() []meta.NodeID
	// Unreached returns the members that this node, as the metadata leader, does not reach. nil: none.
	Unreached func() []formation.Unreached
}

// question is something that any node can be asked, and the function with which it answers.
type question[A, R any] struct {
	forward.Operation[A, R]
	answer func(*Node, context.Context, A) (R, error)
}

// ask asks a node, possibly this one.
func (q question[A, R]) ask(ctx context.Context, o *Node, node meta.NodeID, args A) (R, error) {
	if node == o.Self {
		return q.answer(o, ctx, args)
	}
	reply, err := q.Ask(ctx, o.Calls, node, args)
	return reply, reached(err)
}

// register registers the answer for other nodes.
func (q question[A, R]) register(all forward.Operations, o *Node) {
	forward.Register(all, q.Operation, func(ctx context.Context, args A) (R, error) { return q.answer(o, ctx, args) })
}

// askAll asks several nodes at the same time, each for at most askTimeout, and returns the answers
// received.
func askAll[A, R any](ctx context.Context, o *Node, q question[A, R], nodes []meta.NodeID, args func(meta.NodeID) A) map[meta.NodeID]R {
	var mu sync.Mutex // guards out
	out := make(map[meta.NodeID]R, len(nodes))
	fan.Out(nodes, askTogether, func(id meta.NodeID) {
		one, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		r, err := q.ask(one, o, id, args(id))
		if err != nil {
			o.Log.Debug("node did not answer", "node", id, "question", q.Operation, "error", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		out[id] = r
	})
	return out
}

// atLeader asks the node that leads a partition according to the metadata. If that node does not
// lead it, or cannot be reached, atLeader reads the metadata again, which may have changed
// meanwhile.
func atLeader[A, R any](ctx context.Context, o *Node, q question[A, R], topic string, partition int, args A) (R, error) {
	return untilLed(ctx, o, q, partitionAt{topic, partition}, args, elsewhere)
}

// readAtLeader is atLeader for a question that changes nothing. It is also asked again if the connection was lost before
// the answer, as that of a node that hangs is.
func readAtLeader[A, R any](ctx context.Context, o *Node, q question[A, R], topic string, partition int, args A) (R, error) {
	reply, err := untilLed(ctx, o, q, partitionAt{topic, partition}, args, func(err error) bool {
		return elsewhere(err) || errors.Is(err, peer.ErrDisconnected)
	})
	if errors.Is(err, peer.ErrDisconnected) {
		err = fmt.Errorf("%w: %v", failure.Unreachable, err) //nolint:errorlint // nothing is uncertain of what changes nothing
	}
	return reply, err
}

// tryAtLeader is readAtLeader for a change that is only tried out, and atLeader for one that is made.
func tryAtLeader[A, R any](ctx context.Context, o *Node, q question[A, R], at partitionAt, args A, dryRun bool) (R, error) {
	if dryRun {
		return readAtLeader(ctx, o, q, at.Topic, at.Partition, args)
	}
	return atLeader(ctx, o, q, at.Topic, at.Partition, args)
}

// untilLed asks the leader of a partition, and again after an error for which another answer may come.
func untilLed[A, R any](ctx context.Context, o *Node, q question[A, R], at partitionAt, args A, again func(error) bool) (R, error) {
	var reply R
	var err error
	for try := range askAgain {
		if try > 0 && !beat.Pause(ctx, askPause) {
			return reply, err
		}
		var leader meta.NodeID
		if leader, err = o.leader(at.Topic, at.Partition); err != nil {
			if errors.Is(err, failure.NoLeader) {
				continue
			}
			return reply, err
		}
		reply, err = q.ask(ctx, o, leader, args)
		if err == nil {
			return reply, nil
		}
		if errors.Is(err, peer.ErrDisconnected) || errors.Is(err, failure.Unreachable) {
			err = fmt.Errorf("%s/%d: leader %s: %w", at.Topic, at.Partition, leader, err)
		}
		if !again(err) {
			return reply, err
		}
	}
	return reply, err
}

// leader returns the leader of a partition.
func (o *Node) leader(topic string, partition int) (meta.NodeID, error) {
	t, err := o.topics.Topic(topic)
	if err != nil {
		return "", err
	}
	if partition < 0 || partition >= len(t.Partitions) {
		return "", fmt.Errorf("%s/%d: %w", topic, partition, failure.PartitionNotFound)
	}
	if t.Partitions[partition].Leader == "" {
		return "", fmt.Errorf("%s/%d: %w", topic, partition, failure.NoLeader)
	}
	return t.Partitions[partition].Leader, nil
}

// present returns the nodes that are not down, including this one.
func (o *Node) present() []meta.NodeID {
	var ids []meta.NodeID
	for _, n := range o.Meta.Nodes() {
		if n.State != meta.NodeDown || n.ID == o.Self {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// members returns the members of the metadata's Raft group.
func (o *Node) members() raftstore.Configuration {
	if o.Agreement != nil {
		return o.Agreement.Members()
	}
	return o.Meta.Members().Configuration()
}

// Cluster describes the cluster as known on this node.
func (o *Operator) Cluster() api.Cluster {
	n := o.node
	leader, _ := n.Meta.Leader()
	return clusterOf(n.Meta.View(), n.Self, leader, n.members(), n.answers)
}

// clusterOf describes a cluster from its metadata, and from the view of the node self: the metadata
// leader ("": none known), the members, and which nodes respond.
func clusterOf(s *meta.State, self, leader meta.NodeID, members raftstore.Configuration, answers func(meta.NodeID) bool) api.Cluster {
	info := api.Cluster{
		ClusterID: s.Cluster().ID, Controller: string(leader), Self: string(self), Nodes: []api.Node{},
		Level: uint32(s.Cluster().Level), Attainable: uint32(meta.Attainable(s)),
	}
	load := nodeLoads(s)
	for n := range s.Nodes() {
		m, _ := members.Find(n.ID)
		info.Nodes = append(info.Nodes, nodeInfo(n, m.Voter, load[n.ID], answers(n.ID), leader != ""))
	}
	return info
}

// answers reports whether a node responds to this one.
func (o *Node) answers(id meta.NodeID) bool {
	return id == o.Self || o.Agreement == nil || o.Agreement.Answers(id)
}

// silent returns the members that do not respond to this node.
func (o *Node) silent() (out []string) {
	for _, m := range o.members().Members {
		if !o.answers(m.ID) {
			out = append(out, string(m.ID))
		}
	}
	return out
}

// nodeInfo describes a node, and whether it responds to this one. Without a metadata leader (led),
// the states in the metadata do not change, and a silent node would be shown in its last state:
// then it is shown as down.
func nodeInfo(n *meta.Node, voter bool, l nodeLoad, answers, led bool) api.Node {
	out := api.Node{
		ID: string(n.ID), State: api.NodeState(n.State), Silent: !answers, Voter: voter, Hostname: n.Hostname,
		TCPAddress: n.TCPAddress, HTTPAddress: n.HTTPAddress, HTTPSAddress: n.HTTPSAddress, ClusterAddress: n.ClusterAddress,
		Zone: n.Zone, Version: n.Version, Incarnation: n.Incarnation, Intent: api.Intent(n.Intent),
		Leaders: l.leaders, Replicas: l.replicas, Levels: api.Levels{Min: uint32(n.Levels.Min), Max: uint32(n.Levels.Max)},
	}
	if !answers && !led {
		out.State = api.NodeDown
	}
	return out
}

// nodeLoad counts a node's leaderships and replicas.
type nodeLoad struct{ leaders, preferred, replicas int }

func nodeLoads(s *meta.State) map[meta.NodeID]nodeLoad {
	out := make(map[meta.NodeID]nodeLoad, s.NodeCount())
	meta.EachPartition(s, func(_ *meta.Topic, _ int, p *meta.Partition) {
		for i, id := range p.Replicas {
			l := out[id]
			l.replicas++
			if i == 0 {
				l.preferred++
			}
			if id == p.Leader {
				l.leaders++
			}
			out[id] = l
		}
	})
	return out
}

// leadersOf returns the nodes that lead a partition of the topics and are not known to be down, by
// id.
func (o *Node) leadersOf(topics []*meta.Topic) []meta.NodeID {
	present := o.present()
	found := map[meta.NodeID]bool{}
	for _, t := range topics {
		for i := range t.Partitions {
			found[t.Partitions[i].Leader] = true
		}
	}
	return slices.DeleteFunc(present, func(id meta.NodeID) bool { return !found[id] })
}

// New returns the parts that answer operators: a Node for questions about it, an Operator for
// nodes, partitions and the metadata, and Contents for topics, channels and messages.
func New(o Options, h *host.Host, d *directory.Directory) (*Node, *Operator, *Contents) {
	n := &Node{o, h, d}
	return n, &Operator{n}, &Contents{n}
}

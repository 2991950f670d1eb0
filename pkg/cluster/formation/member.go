package formation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// compareEvery is how often a member compares its cluster with those of its join addresses.
const compareEvery = 10 * time.Minute

// leaderless is how long a member waits for a leader before it asks whether it is still a member.
const leaderless = 3 * time.Second

// maxActions limits the steps for one candidate: displace, remove, add, and repetitions after
// concurrent changes.
const maxActions = 6

// Handle answers a request that arrived through the Options.Call of a node, which the transport has
// authenticated. It returns an error, and has done nothing, if the request is malformed.
func (n *Node) Handle(ctx context.Context, from meta.NodeID, text []byte) ([]byte, error) {
	r, err := decode[request](text)
	if err != nil {
		return nil, err
	}
	a := answer{seen: n.introduce(), Granted: true}
	switch {
	case r.Kind == askWho: // anyone may know the cluster id
	case r.Cluster != "" && a.Cluster != "" && r.Cluster != a.Cluster:
		a.refuse(fmt.Errorf("%w: %s is in cluster %s, %s in cluster %s", ErrOtherCluster, r.From.Node, r.Cluster, n.self.Node, a.Cluster))
	case r.From.Node != from && !n.relays(from, &r):
		err := fmt.Errorf("%w: %s asked for %s", ErrNotSender, from, complaint.Short(string(r.From.Node)))
		n.complaints.Warn(n.o.Logger, time.Now(), "refused a request to join or form a cluster that one node sent in the name of another", "sender", from, "node", r.From.Node)
		a.refuse(err)
	case r.Kind == askJoin:
		if err := n.letIn(ctx, from, r); err != nil {
			a.refuse(err)
		}
	case r.Kind == askDisk:
		var err error
		if a.Certain, err = n.compareDisk(ctx, r); err != nil {
			a.refuse(err)
		}
	default:
		if !n.give(r.Kind, r.From) {
			a.refuse(errors.New("already promised to another bootstrap node"))
		}
	}
	return json.Marshal(a)
}

// relays reports whether a node may send a request of another one: it is a member, and passes on a
// request for membership.
func (n *Node) relays(from meta.NodeID, r *request) bool {
	s := n.Store()
	if s == nil || r.Kind != askJoin && r.Kind != askDisk || !r.Relayed {
		return false
	}
	_, member := s.Members().Configuration().Find(from)
	return member
}

func (n *Node) introduce() seen {
	cluster := n.cluster()
	n.mu.Lock()
	defer n.mu.Unlock()
	out := seen{
		identity: n.self, Member: n.o.HasState || n.store != nil, Cluster: cluster, Expect: n.o.Expect,
		Sees: slices.Clone(n.sees),
	}
	if n.store != nil {
		out.Applied = n.store.Applied()
	}
	return out
}

// give handles a bootstrap node's request for a promise, and reports whether it is granted.
func (n *Node) give(kind requestKind, to identity) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch kind {
	case askPromise:
		return n.word.promise(to, time.Now(), promiseTime)
	case askBond:
		return n.word.bind(to, time.Now())
	case askRelease:
		n.word.release(to)
		return true
	case askWho, askJoin, askDisk:
	}
	return false
}

// letIn makes the node of a request a member, directly or through the leader. from has sent it.
func (n *Node) letIn(ctx context.Context, from meta.NodeID, r request) error {
	s := n.Store()
	if s == nil {
		return errors.New("not in a cluster")
	}
	if s.IsLeader() {
		err := meta.CheckLevel(s.View(), r.Levels)
		if err == nil {
			err = n.admit(ctx, s, candidate{identity: r.From, fresh: r.Fresh}, plea{via: from, proof: r.Proof})
		}
		if err != nil {
			recordRefusal(ctx, n, s, r.From, err)
			return err
		}
		if why := n.unreached(r.From.Node); why != nil && !r.Fresh {
			return fmt.Errorf("%w: %s at %s: %w", errUnanswered, r.From.Node, r.From.Address, why)
		}
		return nil
	}
	leader, _ := s.Leader()
	m, ok := s.Members().Configuration().Find(leader)
	if !ok || r.Relayed || leader == r.From.Node { // one that asks no longer leads
		return failure.NotController
	}
	r.Relayed = true
	return n.ask(ctx, m.ID, m.Address, r).err
}

// plea is how a request for membership has arrived.
type plea struct {
	via   meta.NodeID       // the node that sent it: the candidate, or a member that relayed it
	proof *access.JoinProof // of the candidate's join token; nil: it has none
}

// admit changes the membership of a node as decided. Only the leader calls it. A node without state
// is admitted by its join token, if the cluster requires one.
func (n *Node) admit(ctx context.Context, s *raftstore.Store, who candidate, p plea) error {
	select {
	case n.admission <- struct{}{}:
		defer func() { <-n.admission }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// A deposed leader that does not know it yet must not refuse a node.
	if err := s.VerifyLeader(ctx); err != nil {
		return err
	}
	members := s.Members()
	admitted := false
	for range maxActions {
		c := members.Configuration()
		act, err := admit(c, who, n.around(ctx, c, who))
		if act == actRefuse {
			return err
		}
		if !admitted {
			if err := n.allow(ctx, s, act, who, p.proof); err != nil {
				return err
			}
			admitted = true
		}
		if act == actNothing {
			return nil
		}
		if err := n.carryOut(ctx, members, c, act, who); err != nil {
			return err
		}
		n.changed(ctx, s, changeOf(c, act, who, p.via))
	}
	return errors.New("cluster membership keeps changing; retry")
}

// allow returns why a decision about a candidate is not carried out, or nil.
func (n *Node) allow(ctx context.Context, s *raftstore.Store, act action, who candidate, proof *access.JoinProof) error {
	switch {
	case act == actAdd && n.unanswered(s) >= maxUnanswered:
		return errManyUnanswered
	case who.fresh:
		return redeem(ctx, n, s, who.identity, proof)
	case act != actNothing && who.Node != n.self.Node && n.exposed(s):
		return ErrOpenPort
	}
	return nil
}

// exposed reports whether nodes need a join token because any process that reaches the cluster port
// could join, although access control is on.
func (n *Node) exposed(s *raftstore.Store) bool {
	return n.o.Open != nil && n.o.Open() && raftstore.AccessOf(s).On()
}

// carryOut makes one change for a candidate.
func (n *Node) carryOut(ctx context.Context, members raftstore.Members, c raftstore.Configuration, act action, who candidate) error {
	switch act {
	case actAdd, actMove:
		return members.AddNonvoter(ctx, who.Node, who.Address) // a voter remains a voter
	case actRemove:
		return members.Remove(ctx, who.Node)
	case actDisplace:
		holder, _ := holderOf(c, who.identity)
		n.o.Logger.Warn("member's cluster address taken over by another node; if the member is gone for good, decommission and remove it",
			"node", holder.ID, "address", who.Address, "to", who.Node)
		return members.AddNonvoter(ctx, holder.ID, string(holder.ID)+noAddress) // a voter remains a voter
	case actNothing, actRefuse, actPromote:
	}
	return fmt.Errorf("BUG: %s for a candidate", act)
}

// around returns the nodes that respond around a candidate, as far as they matter: if no other
// process may have its name, and it changes nothing, none is called.
func (n *Node) around(ctx context.Context, c raftstore.Configuration, who candidate) (out neighbours) {
	m, known := c.Find(who.Node)
	holder, taken := holderOf(c, who.identity)
	own := who.Node == n.self.Node
	if known && !own && !AddressUnknown(m.Address) && (m.Address != who.Address || who.fresh) {
		out.atName = n.ask(ctx, m.ID, m.Address, request{Kind: askWho}).identity
	}
	if known && (m.Address != who.Address || who.fresh && m.Voter) || taken {
		if out.itself.identity = who.identity; !own {
			out.itself = n.ask(ctx, who.Node, who.Address, request{Kind: askWho}).seen
		}
	}
	switch {
	case !taken || out.itself.identity == who.identity:
	case holder.ID == n.self.Node && n.self.Address == who.Address: // unless the leader itself has moved
		out.holder = n.self
	default:
		out.holder = n.ask(ctx, holder.ID, who.Address, request{Kind: askWho}).identity
	}
	return out
}

// Run maintains the node's membership after Start: it reports a changed address, and promotes other
// nodes while this one leads. If no leader has been known for a while it asks the other nodes
// for its membership: a node removed while it was down learns of it in no other way. It returns nil
// when ctx ends, and otherwise the reason why the node is no longer a member.
func (n *Node) Run(ctx context.Context) error {
	s := n.Store()
	if s == nil {
		return errors.New("BUG: Run before Start")
	}
	lost := time.Now() // since when no leader is known
	var check time.Time
	told := "" // the last logged reason why the leader does not reach this node
	for {
		if now := time.Now(); !now.Before(check) {
			check = now.Add(compareEvery)
			compare(ctx, n)
		}
		if _, known := s.Leader(); known {
			lost = time.Now()
		}
		Awaited(n) // notes who has registered
		if err := n.ensureMember(ctx, s, time.Since(lost) >= leaderless); err != nil {
			if final(err) {
				return err
			}
			level := slog.LevelDebug
			if text := err.Error(); errors.Is(err, errUnanswered) && text != told {
				level, told = slog.LevelWarn, text
			}
			n.o.Logger.Log(ctx, level, "cannot bring the membership of this node up to date; retrying", "error", err)
		}
		if err := n.oversee(ctx, s); err != nil {
			n.o.Logger.Debug("cannot promote or remove members; retrying", "error", err)
		}
		select {
		case <-time.After(n.o.Interval):
		case <-s.Failed():
			return s.Err()
		case <-ctx.Done():
			return nil
		}
	}
}

// ensureMember requests what the node's membership lacks; with anyway, also if it seems to lack
// nothing.
func (n *Node) ensureMember(ctx context.Context, s *raftstore.Store, anyway bool) error {
	c := s.Members().Configuration()
	me, ok := c.Find(n.self.Node)
	if ok && me.Address == n.self.Address && !anyway {
		return nil
	}
	if s.IsLeader() {
		return n.admit(ctx, s, candidate{identity: n.self}, plea{via: n.self.Node})
	}
	addresses := n.addresses(c)
	if anyway {
		n.locate(ctx, c, addresses)
	}
	var err error
	for _, address := range addresses {
		err = n.ask(ctx, "", address, request{Kind: askJoin, Levels: level.Supported()}).err
		if err == nil || final(err) {
			return err
		}
	}
	return err
}

// addresses returns possible addresses of other nodes: those of Join first, then those of the
// members.
func (n *Node) addresses(c raftstore.Configuration) []string {
	out := slices.Clone(n.o.Join)
	for _, m := range c.Members {
		if m.ID != n.self.Node && !slices.Contains(out, m.Address) && !AddressUnknown(m.Address) {
			out = append(out, m.Address)
		}
	}
	return out
}

// compare looks for join addresses of other clusters. A node with metadata does not join: one that was
// started alone before join was set serves a cluster of its own.
func compare(ctx context.Context, n *Node) {
	var others []string
	for i, r := range n.askAll(ctx, n.o.Join, askWho) {
		if errors.Is(r.err, ErrOtherCluster) {
			others = append(others, n.o.Join[i])
		}
	}
	n.mu.Lock()
	known := slices.Equal(n.others, others)
	n.others = others
	n.mu.Unlock()
	if !known && len(others) > 0 {
		n.o.Logger.Warn("addresses of join belong to another cluster: this node stays in its own, and shares no topics with them",
			"addresses", others, "cluster", n.cluster(),
			"cure", "to join that cluster, stop this node and start it with an empty data directory; otherwise correct join")
	}
}

// OtherClusters returns the join addresses of a node that belong to another cluster than the node.
func OtherClusters(n *Node) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.others
}

// relocation is the address at which a member was found, in place of the one in the Raft
// configuration.
type relocation struct{ from, to string }

// locate finds members whose addresses have changed while there is no leader that could record it:
// if most of them have moved, none can be elected before they find each other.
func (n *Node) locate(ctx context.Context, c raftstore.Configuration, addresses []string) {
	for i, r := range n.askAll(ctx, addresses, askWho) {
		m, ok := c.Find(r.Node)
		if r.err != nil || !ok || !r.Member || r.Cluster == "" || r.Cluster != n.cluster() || m.Address == addresses[i] {
			continue
		}
		n.mu.Lock()
		moved := relocation{m.Address, addresses[i]}
		if n.moved[m.ID] != moved {
			n.moved[m.ID] = moved
			n.o.Logger.Info("member found at a new address", "node", m.ID, "address", moved.to, "was", moved.from)
		}
		n.mu.Unlock()
	}
}

// Located returns the address of a member: the given one, or the one at which it was found since.
func (n *Node) Located(id meta.NodeID, address string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if moved, ok := n.moved[id]; ok && moved.from == address {
		return moved.to
	}
	return address
}

package formation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

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

// maxActions limits the steps for one candidate: remove, add, promote, and repetitions after
// concurrent changes.
const maxActions = 6

// Handle answers a request that arrived through another node's Options.Call. It returns an error,
// and has done nothing, if the request is malformed.
func (n *Node) Handle(ctx context.Context, text []byte) ([]byte, error) {
	r, err := decode[request](text)
	if err != nil {
		return nil, err
	}
	a := answer{seen: n.introduce(), Granted: true}
	switch {
	case r.Kind == askWho: // anyone may know the cluster id
	case r.Cluster != "" && a.Cluster != "" && r.Cluster != a.Cluster:
		a.refuse(fmt.Errorf("%w: %s is in cluster %s, %s in cluster %s", ErrOtherCluster, r.From.Node, r.Cluster, n.self.Node, a.Cluster))
	case r.Kind == askJoin:
		if err := n.letIn(ctx, r); err != nil {
			a.refuse(err)
		}
	default:
		if !n.give(r.Kind, r.From) {
			a.refuse(errors.New("already promised to another bootstrap node"))
		}
	}
	return json.Marshal(a)
}

func (n *Node) introduce() seen {
	cluster := n.cluster()
	n.mu.Lock()
	defer n.mu.Unlock()
	return seen{
		identity: n.self, Member: n.o.HasState || n.store != nil, Cluster: cluster, Expect: n.o.Expect,
		Sees: slices.Clone(n.sees),
	}
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
	case askWho, askJoin:
	}
	return false
}

// letIn makes the sender a member, directly or through the leader.
func (n *Node) letIn(ctx context.Context, r request) error {
	s := n.Store()
	if s == nil {
		return errors.New("not in a cluster")
	}
	if s.IsLeader() {
		err := meta.CheckLevel(s.View(), r.Levels)
		if err == nil {
			err = n.admit(ctx, s, candidate{identity: r.From, fresh: r.Fresh, applied: r.Applied}, r.Proof)
		}
		if err != nil {
			recordRefusal(ctx, n, s, r.From, err)
		}
		return err
	}
	leader, _ := s.Leader()
	m, ok := s.Members().Configuration().Find(leader)
	if !ok || r.Relayed {
		return failure.NotController
	}
	r.Relayed = true
	return n.ask(ctx, m.Address, r).err
}

// admit changes the membership of a node as decided. Only the leader calls it. A node without state
// is admitted by its join token, if the cluster requires one.
func (n *Node) admit(ctx context.Context, s *raftstore.Store, who candidate, proof *access.JoinProof) error {
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
	admitted := !who.fresh
	for range maxActions {
		c := members.Configuration()
		act, err := admit(c, s.Applied(), who, neighbours{n.occupant(ctx, c, who), n.claimant(ctx, c, who)})
		if act != actRefuse && !admitted {
			if err := redeem(ctx, n, s, who.identity, proof); err != nil {
				return err
			}
			admitted = true
		}
		switch act {
		case actNothing:
			return nil
		case actRefuse:
			return err
		case actAdd:
			err = members.AddNonvoter(ctx, who.Node, who.Address)
		case actMove:
			err = members.AddNonvoter(ctx, who.Node, who.Address) // a voter remains a voter
		case actRemove:
			err = members.Remove(ctx, who.Node)
		case actPromote:
			err = members.Promote(ctx, who.Node)
		case actDisplace:
			holder, _ := holderOf(c, who.identity)
			err = members.AddNonvoter(ctx, holder.ID, string(holder.ID)+noAddress) // a voter remains a voter
			n.o.Logger.Warn("member's cluster address taken over by another node; if the member is gone for good, decommission and remove it",
				"node", holder.ID, "address", who.Address, "to", who.Node)
		}
		if err != nil {
			return err
		}
		n.o.Logger.Info("membership changed", "node", who.Node, "address", who.Address, "action", string(act))
	}
	return errors.New("cluster membership keeps changing; retry")
}

// occupant returns the node that responds at the address of the member with the candidate's name,
// if that may be another process.
func (n *Node) occupant(ctx context.Context, c raftstore.Configuration, who candidate) identity {
	m, known := c.Find(who.Node)
	if !known || who.Node == n.self.Node {
		return identity{}
	}
	if m.Address == who.Address && !who.fresh || AddressUnknown(m.Address) {
		return identity{}
	}
	return n.ask(ctx, m.Address, request{Kind: askWho}).identity
}

// claimant returns the node that responds at the candidate's address, if another member has that
// address.
func (n *Node) claimant(ctx context.Context, c raftstore.Configuration, who candidate) identity {
	holder, taken := holderOf(c, who.identity)
	switch {
	case !taken:
		return identity{}
	case holder.ID == n.self.Node && n.self.Address == who.Address: // unless the leader itself has moved
		return n.self
	case who.Node == n.self.Node:
		return who.identity
	}
	return n.ask(ctx, who.Address, request{Kind: askWho}).identity
}

// Run maintains the node's membership after Start: it requests a vote if there are too few voters,
// and reports a changed address. If no leader has been known for a while it asks the other nodes
// for its membership: a node removed while it was down learns of it in no other way. It returns nil
// when ctx ends, and otherwise the reason why the node is no longer a member.
func (n *Node) Run(ctx context.Context) error {
	s := n.Store()
	if s == nil {
		return errors.New("BUG: Run before Start")
	}
	lost := time.Now() // since when no leader is known
	var check time.Time
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
			n.o.Logger.Debug("cannot bring the membership of this node up to date; retrying", "error", err)
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
	if ok && me.Address == n.self.Address && (me.Voter || len(c.Voters()) >= maxVoters) && !anyway {
		return nil
	}
	if s.IsLeader() {
		return n.admit(ctx, s, candidate{identity: n.self, applied: s.Applied()}, nil)
	}
	addresses := n.addresses(c)
	if anyway {
		n.locate(ctx, c, addresses)
	}
	var err error
	for _, address := range addresses {
		err = n.ask(ctx, address, request{Kind: askJoin, Applied: s.Applied(), Levels: level.Supported()}).err
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

package formation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// leaderless is how long a member waits for a leader before it asks whether it
// still is one.
const leaderless = 3 * time.Second

// maxActions bounds what is done for one candidate: remove, add, promote, and
// again where others interfered.
const maxActions = 6

// Handle answers a request that another node's Options.Call brought here. An
// error means that the request could not be read; nothing was done then.
func (n *Node) Handle(ctx context.Context, text []byte) ([]byte, error) {
	r, err := decode[request](text)
	if err != nil {
		return nil, err
	}
	a := answer{seen: n.introduce(), Granted: true}
	switch {
	case r.Kind == askWho: // whoever asks may know whose it is
	case r.Cluster != "" && a.Cluster != "" && r.Cluster != a.Cluster:
		a.refuse(fmt.Errorf("%w: %s is in %s, %s in %s", ErrOtherCluster, r.From.Node, r.Cluster, n.self.Node, a.Cluster))
	case r.Kind == askJoin:
		if err := n.letIn(ctx, r); err != nil {
			a.refuse(err)
		}
	default:
		if !n.give(r.Kind, r.From) {
			a.refuse(errors.New("the word is given to another"))
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

// give does what a founder asks, and says whether it is granted.
func (n *Node) give(kind requestKind, to identity) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch kind {
	case askPromise:
		return n.word.promise(to, time.Now(), n.o.Promise)
	case askBond:
		return n.word.bind(to, time.Now())
	case askRelease:
		n.word.release(to)
		return true
	case askWho, askJoin:
	}
	return false
}

// letIn makes the sender a member, or has the leader do so.
func (n *Node) letIn(ctx context.Context, r request) error {
	s := n.opened()
	if s == nil {
		return errors.New("not in a cluster yet")
	}
	if s.IsLeader() {
		return n.admit(ctx, s, candidate{identity: r.From, fresh: r.Fresh, applied: r.Applied})
	}
	leader, _ := s.Leader()
	m, ok := s.Members().Configuration().Find(leader)
	if !ok || r.Relayed {
		return raftstore.ErrNotLeader
	}
	r.Relayed = true
	return n.ask(ctx, m.Address, r).err
}

// admit makes a node what it is to be. The leader does that.
func (n *Node) admit(ctx context.Context, s *raftstore.Store, who candidate) error {
	select {
	case n.admission <- struct{}{}:
		defer func() { <-n.admission }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	// One that was deposed and does not know it must refuse nobody.
	if err := s.VerifyLeader(ctx); err != nil {
		return err
	}
	members := s.Members()
	for range maxActions {
		c := members.Configuration()
		act, err := admit(c, s.Applied(), who, n.occupant(ctx, c, who))
		switch act {
		case actNothing:
			return nil
		case actRefuse:
			return err
		case actAdd:
			err = members.AddNonvoter(ctx, who.Node, who.Address)
		case actMove:
			err = members.AddNonvoter(ctx, who.Node, who.Address) // a voter stays one
		case actRemove:
			err = members.Remove(ctx, who.Node)
		case actPromote:
			err = members.Promote(ctx, who.Node)
		}
		if err != nil {
			return err
		}
		n.o.Logger.Info("membership changed", "node", who.Node, "address", who.Address, "action", act.String())
	}
	return errors.New("the membership keeps changing")
}

// occupant returns who answers where the member of the candidate's name is known
// to be, where that may be another process.
func (n *Node) occupant(ctx context.Context, c raftstore.Configuration, who candidate) identity {
	m, known := c.Find(who.Node)
	if !known || who.Node == n.self.Node {
		return identity{}
	}
	if m.Address == who.Address && !who.fresh {
		return identity{}
	}
	return n.ask(ctx, m.Address, request{Kind: askWho}).identity
}

// Run keeps the node what it is to be, after Start: it asks for a vote where
// there are too few, and tells of a changed address. Where no leader has been
// known for a while it asks the others for its place: one that was removed while
// it did not run hears of it in no other way. It returns nil when ctx ends, and otherwise why the node has no place in the cluster any more.
func (n *Node) Run(ctx context.Context) error {
	s := n.opened()
	if s == nil {
		return errors.New("run before start")
	}
	lost := time.Now() // since when no leader is known
	for {
		if _, known := s.Leader(); known {
			lost = time.Now()
		}
		if err := n.settle(ctx, s, time.Since(lost) >= leaderless); err != nil {
			if final(err) {
				return err
			}
			n.o.Logger.Debug("not settled", "error", err)
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

// settle asks for what the node lacks, if anything; with anyway also if that
// seems to be nothing.
func (n *Node) settle(ctx context.Context, s *raftstore.Store, anyway bool) error {
	c := s.Members().Configuration()
	me, ok := c.Find(n.self.Node)
	if ok && me.Address == n.self.Address && (me.Voter || len(c.Voters()) >= MaxVoters) && !anyway {
		return nil
	}
	if s.IsLeader() {
		return n.admit(ctx, s, candidate{identity: n.self, applied: s.Applied()})
	}
	addresses := slices.Clone(n.o.Join)
	for _, m := range c.Members {
		if m.ID != n.self.Node && !slices.Contains(addresses, m.Address) {
			addresses = append(addresses, m.Address)
		}
	}
	var err error
	for _, address := range addresses {
		err = n.ask(ctx, address, request{Kind: askJoin, Applied: s.Applied()}).err
		if err == nil || final(err) {
			return err
		}
	}
	return err
}

package formation

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// contact is what the leader knows of a member without a vote from its own calls to it.
type contact struct {
	who     identity  // the process that answered last; zero: none has answered
	since   time.Time // of the first answer of the unbroken series; zero: there is none
	goal    uint64    // what the leader had applied before since
	applied uint64    // what the member had applied at its last answer
	failed  error     // of the last call; nil: it was answered
	lost    time.Time // of the first call of the series of failed ones
}

// observe records a call that was made at now, when the leader had applied the commands up to
// committed. Another process of the member begins another series.
func (k *contact) observe(r reply, committed uint64, now time.Time) {
	if r.err == nil && !r.Member {
		r.err = errStateless
	}
	if r.err != nil {
		if k.failed == nil {
			k.lost = now
		}
		k.failed, k.since = r.err, time.Time{}
		return
	}
	if k.since.IsZero() || k.who != r.identity {
		k.since, k.goal = now, committed
	}
	k.who, k.applied, k.failed = r.identity, r.Applied, nil
}

var (
	errStateless = fate.Refuse("the node answers, but has not opened its metadata")
	errNoAddress = fate.Refuse("its cluster address was taken over by another node")
)

// oversee calls the members without a vote at their addresses, and promotes or removes them as
// decided. Only the leader does it.
func (n *Node) oversee(ctx context.Context, s *raftstore.Store) error {
	if !s.IsLeader() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.contacts = nil // another leader decides
		return nil
	}
	n.callLearners(ctx, s)
	for _, id := range n.watched() {
		act, m, why := n.reviewed(s, id)
		if act == actNothing {
			continue
		}
		if err := n.settle(ctx, s, act, m, why); err != nil {
			return err
		}
	}
	return nil
}

// callLearners calls the members without a vote, all at once, and records the outcome.
func (n *Node) callLearners(ctx context.Context, s *raftstore.Store) {
	committed, now := s.Applied(), time.Now()
	members := slices.DeleteFunc(s.Members().Configuration().Members, func(m raftstore.Member) bool { return m.Voter || m.ID == n.self.Node })
	replies := make([]reply, len(members))
	var calls sync.WaitGroup
	for i, m := range members {
		calls.Go(func() {
			if replies[i].err = errNoAddress; !AddressUnknown(m.Address) {
				replies[i] = n.ask(ctx, m.ID, m.Address, request{Kind: askWho})
			}
		})
	}
	calls.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.contacts
	n.contacts = make(map[meta.NodeID]contact, len(members))
	for i, m := range members {
		k := was[m.ID]
		k.observe(replies[i], committed, now)
		n.contacts[m.ID] = k
	}
}

// watched returns the members without a vote that were called, by id.
func (n *Node) watched() (ids []meta.NodeID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id := range n.contacts {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// reviewed decides about a member by the present configuration. why is for the audit log.
func (n *Node) reviewed(s *raftstore.Store, id meta.NodeID) (act action, m raftstore.Member, why string) {
	c, registered, committed := s.Members().Configuration(), s.View().Node(id) != nil, s.Applied()
	m, ok := c.Find(id)
	n.mu.Lock()
	defer n.mu.Unlock()
	if !ok || m.Voter {
		return actNothing, m, ""
	}
	act = review(c, n.contacts[id], n.founders[id], registered, committed, time.Now())
	switch act {
	case actPromote:
		why = "it answers at " + m.Address + " and has the metadata"
	case actRemove:
		why = "no answer at " + m.Address + " for " + unansweredFor.String() + ", and it has not registered"
	case actNothing, actRefuse, actAdd, actMove, actDisplace: // not recorded as decided here
	}
	return act, m, why
}

// settle promotes or removes a member without a vote.
func (n *Node) settle(ctx context.Context, s *raftstore.Store, act action, m raftstore.Member, why string) (err error) {
	select {
	case n.admission <- struct{}{}: // its address must not change meanwhile
		defer func() { <-n.admission }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if now, ok := s.Members().Configuration().Find(m.ID); !ok || now != m {
		return nil // the next call decides
	}
	if act == actPromote {
		err = s.Members().Promote(ctx, m.ID)
	} else {
		err = s.Members().Remove(ctx, m.ID)
	}
	if err != nil {
		return err
	}
	n.mu.Lock()
	delete(n.founders, m.ID)
	n.mu.Unlock()
	n.changed(ctx, s, change{act: act, node: m.ID, address: m.Address, by: n.self, why: why})
	return nil
}

// Unreached is a member without a vote that does not answer the metadata leader. It gets no vote.
type Unreached struct {
	Node    meta.NodeID `json:"node"`
	Address string      `json:"address"`
	Since   time.Time   `json:"since"`
	Why     string      `json:"why"`
	// Until is when it is removed if it still does not answer; zero: it is not, as it has registered.
	Until time.Time `json:"until,omitzero"`
}

// unreachedAfter is how long a member does not answer before it is reported: it may just start.
const unreachedAfter = 3 * time.Second

// UnreachedBy returns the members without a vote that have not answered a node for a while, by id;
// none unless the node leads the metadata.
func UnreachedBy(n *Node) (out []Unreached) {
	s := n.Store()
	if s == nil || !s.IsLeader() {
		return nil
	}
	c, v, now := s.Members().Configuration(), s.View(), time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, k := range n.contacts {
		m, ok := c.Find(id)
		if !ok || m.Voter || k.failed == nil || now.Sub(k.lost) < unreachedAfter {
			continue
		}
		u := Unreached{Node: id, Address: m.Address, Since: k.lost, Why: k.failed.Error()}
		if v.Node(id) == nil {
			u.Until = k.lost.Add(unansweredFor)
		}
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b Unreached) int { return strings.Compare(string(a.Node), string(b.Node)) })
	return out
}

// unanswered returns the number of members that have not registered and do not answer the leader.
func (n *Node) unanswered(s *raftstore.Store) (count int) {
	v, c := s.View(), s.Members().Configuration()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range c.Members {
		if !m.Voter && v.Node(m.ID) == nil && n.contacts[m.ID].since.IsZero() {
			count++
		}
	}
	return count
}

// unreached returns why the leader cannot reach a member without a vote; nil: it can, or has not
// called it yet.
func (n *Node) unreached(id meta.NodeID) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.contacts[id].failed
}

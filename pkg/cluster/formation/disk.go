package formation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

// The metadata of a node is on its disk, with the votes that the node has cast and the commands that it has
// acknowledged. An older copy of it, or that of a disk which was replaced, has forgotten some of them: with it a node
// could vote twice in a term, or for a leader without a committed command. A node with metadata therefore asks the
// others before it takes part in the Raft group. If its disk is outdated, it sets the metadata aside and joins like a
// node with an empty disk: the leader removes its vote first.
//
// The answer of the leader is certain. Without a leader, each member answers from what it has stored, which may lack
// the last starts of others; it says only what is certain nevertheless. A node takes no part in the Raft group before
// as many others have answered as it needs for a majority: without them it could do nothing.

// diskTimeout is how long a node waits for these answers at a time. A member waits for less until it is sure to lead:
// one that is isolated answers from what it has stored.
const (
	diskTimeout   = 500 * time.Millisecond
	certainWithin = 200 * time.Millisecond
)

// ErrDiskOutdated is returned to a node whose data directory is not the one that it used last, or an older copy of it.
// Refused.
var ErrDiskOutdated = fate.Refuse("data directory is not the one that the node used last, or an older copy of it")

// ErrStartAgain is returned to such a node if that was found after it had opened its metadata. Refused.
var ErrStartAgain = fate.Refuse("start the node again: it sets its metadata aside and joins its cluster again")

// claim is what a node says about its data directory before it takes part in the Raft group.
type claim struct {
	Disk    meta.Disk `json:"disk"`
	Follows []string  `json:"follows,omitempty"` // as in meta.NodeStarted
}

// Disk is the data directory of a node with metadata.
type Disk struct {
	Disk    meta.Disk
	Follows []string // as in meta.NodeStarted
	// SetAside moves the metadata away, after its store was closed.
	SetAside func() error
}

// current opens the metadata on the node's disk. If other nodes know that the disk is outdated, it sets the metadata
// aside, joins the cluster again, and opens that.
func (n *Node) current(ctx context.Context, open func(bootstrap bool) (*raftstore.Store, error)) (*raftstore.Store, error) {
	s, err := n.opened(open(false))
	if n.compared = n.o.Disk == nil; err != nil || n.compared {
		return s, err
	}
	answered, outdated := n.outdated(ctx, s)
	if outdated == nil {
		n.compared = answered
		return s, nil
	}
	if len(n.o.Join) == 0 {
		return nil, errors.Join(fmt.Errorf("%w: the data here is left unchanged: name other nodes in join, and the node joins again and sets its replicas aside", outdated), s.Close())
	}
	n.o.Logger.Error("data directory is outdated: its metadata is set aside, and the node joins its cluster again without a vote of its own until it has caught up", "error", outdated)
	n.mu.Lock()
	n.store, n.was, n.word = nil, "", promises{}
	n.o.HasState, n.o.Expect = false, 0 // it never forms a cluster
	n.mu.Unlock()
	if err := errors.Join(s.Close(), n.o.Disk.SetAside()); err != nil {
		return nil, fmt.Errorf("set aside outdated metadata: %w", err)
	}
	n.compared = true
	if _, err := n.form(ctx); err != nil {
		return nil, fmt.Errorf("join cluster again: %w", err)
	}
	return n.opened(open(false))
}

// Compared returns when enough other members have answered that they do not know a later start of the node. It
// returns ErrStartAgain if one does, and nil when ctx ends. It is called once, after Start.
func (n *Node) Compared(ctx context.Context) (err error) {
	for !n.compared {
		select {
		case <-time.After(n.o.Interval):
		case <-ctx.Done():
			return nil
		}
		if n.compared, err = n.outdated(ctx, n.Store()); err != nil {
			return fmt.Errorf("%w (%s)", ErrStartAgain, err.Error())
		}
	}
	return nil
}

// outdated asks the other nodes whether the node's disk is outdated, until the leader has answered, all have, or it
// has waited long enough. It returns an ErrDiskOutdated, or whether enough members have answered.
func (n *Node) outdated(ctx context.Context, s *raftstore.Store) (enough bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, diskTimeout)
	defer cancel()
	c := s.Members().Configuration()
	addresses := n.addresses(c)
	replies := make(chan reply, len(addresses))
	for _, address := range addresses {
		go func() {
			replies <- n.ask(ctx, "", address, request{Kind: askDisk, Claim: &claim{n.o.Disk.Disk, n.o.Disk.Follows}})
		}()
	}
	answered := map[meta.NodeID]bool{}
	others := len(c.Voters()) / 2 // which make a majority with this node
	for range addresses {
		select {
		case r := <-replies:
			switch {
			case errors.Is(r.err, ErrDiskOutdated):
				return false, r.err
			case r.err == nil && r.certain:
				return true, nil
			case r.Member && r.Cluster != "" && !errors.Is(r.err, ErrOtherCluster): // it has opened its metadata
				answered[r.Node] = true
			}
		case <-ctx.Done():
			return len(answered) >= others, nil
		}
	}
	return len(answered) >= others, nil
}

// compareDisk compares the disk of another node with the one of its last registered start. certain means that no
// later start is registered.
func (n *Node) compareDisk(ctx context.Context, r request) (certain bool, err error) {
	s := n.Store()
	if s == nil || r.Claim == nil {
		return false, errors.New("not in a cluster")
	}
	c := r.Claim
	if leads(ctx, s) {
		if m := s.Node(r.From.Node); m != nil && m.Disk.Outdated(c.Disk, c.Follows) {
			return true, fmt.Errorf("%w: %s starts with %s", ErrDiskOutdated, m.ID, m.Disk.Difference(c.Disk))
		}
		return true, nil
	}
	leader, _ := s.Leader()
	if m, ok := s.Members().Configuration().Find(leader); ok && !r.Relayed && leader != n.self.Node && leader != r.From.Node {
		relayed := r
		relayed.Relayed = true
		if a := n.ask(ctx, m.ID, m.Address, relayed); errors.Is(a.err, ErrDiskOutdated) || a.err == nil && a.certain {
			return true, a.err
		}
	}
	stored, err := s.Stored()
	if err != nil {
		return false, err
	}
	if m := stored.State.Node(r.From.Node); m != nil && m.Disk.Precedes(c.Disk, c.Follows) {
		return false, fmt.Errorf("%w: %s starts with %s", ErrDiskOutdated, m.ID, m.Disk.Difference(c.Disk))
	}
	return false, nil
}

// leads reports whether this node leads, and has applied everything that is committed.
func leads(ctx context.Context, s *raftstore.Store) bool {
	if !s.IsLeader() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, certainWithin)
	defer cancel()
	return s.Barrier(ctx) == nil // which a deposed leader cannot have
}

// opened keeps an opened store.
func (n *Node) opened(s *raftstore.Store, err error) (*raftstore.Store, error) {
	if err != nil {
		return nil, err
	}
	was, err := raftstore.StoredCluster(s)
	if err != nil {
		was = "" // known once there is a leader
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.store, n.was = s, was
	return s, nil
}

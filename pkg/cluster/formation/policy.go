package formation

import (
	"fmt"
	"strings"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

const (
	// maxVoters is the maximum number of voters. Further nodes are members without a vote; one of
	// them is promoted when a voter is removed for good.
	maxVoters = 5
	// promotionLag is how many commands a node may be behind when it is promoted.
	promotionLag = 256
	// stableFor is for how long a member must have answered the leader, at its address and without a
	// break, before it gets a vote.
	stableFor = 5 * time.Second
	// unansweredFor is how long a member without a vote that has not registered remains a member
	// without answering the leader.
	unansweredFor = 10 * time.Minute
	// maxUnanswered limits the members that have not registered and do not answer the leader.
	maxUnanswered = 8
)

// Tolerance returns how many more voters may fail before the quorum is lost; negative: that
// many are missing now. Nodes for which up is false count as failed.
func Tolerance(c raftstore.Configuration, up func(meta.NodeID) bool) int {
	voters := c.Voters()
	left := -(len(voters)/2 + 1)
	for _, id := range voters {
		if up(id) {
			left++
		}
	}
	return left
}

// action is the leader's next action for a node.
type action string

const (
	actNothing  action = "nothing" // to change
	actRefuse   action = "refuse"
	actAdd      action = "add"      // as a member without a vote
	actRemove   action = "remove"   // it has lost the state of its vote, or does not answer
	actMove     action = "move"     // to another address
	actPromote  action = "promote"  // to a voter
	actDisplace action = "displace" // the member that has its address loses the address
)

// candidate is a node that requests membership.
type candidate struct {
	identity
	fresh bool // it has no state
}

// neighbours are the nodes that respond at a candidate's present and former addresses. The zero
// value of each means that none responds, or that none was queried.
type neighbours struct {
	atName identity // at the address of the member with the candidate's name, by that name
	itself seen     // at the candidate's address, by its name
	holder identity // at the candidate's address, by the name of another member that has it
}

// at reports whether a candidate's process itself responds at its address. Nothing that a member
// has is changed without that: neither a request of another process, nor one of a node that the
// leader cannot reach, takes a vote or an address from it.
func (a *neighbours) at(who candidate) bool {
	return a.itself.identity == who.identity && (!who.fresh || !a.itself.Member)
}

// admit decides about a candidate from the members and the neighbours. The error is for actRefuse.
//
// A node that takes over the address of another member is the only one that responds there: the
// other member is dead or has moved. It remains a member without an address, and gets an address
// again when it returns.
func admit(c raftstore.Configuration, who candidate, around neighbours) (action, error) {
	m, known := c.Find(who.Node)
	holder, taken := holderOf(c, who.identity)
	switch {
	case known && around.atName.Node == who.Node && around.atName.Session != who.Session:
		return actRefuse, ErrNodeIDTaken
	case !known && !who.fresh:
		return actRefuse, failure.Removed
	case taken && around.at(who):
		return actDisplace, nil
	case taken && around.holder.Node == holder.ID:
		return actRefuse, fmt.Errorf("%w: %s belongs to %s, which responds there: change the cluster-address of one of them", ErrAddressTaken, who.Address, holder.ID)
	case taken:
		return actRefuse, fmt.Errorf("%w: %s belongs to member %s, and %s does not respond there either", errAddressUnclear, who.Address, holder.ID, who.Node)
	case !known:
		return actAdd, nil
	case who.fresh && !m.Voter && m.Address == who.Address, !who.fresh && m.Address == who.Address:
		return actNothing, nil
	case !around.at(who):
		return actRefuse, fmt.Errorf("%w: %s at %s", errUnanswered, who.Node, who.Address)
	case who.fresh && m.Voter:
		return actRemove, nil
	}
	return actMove, nil
}

// review decides about a member without a vote, from the leader's own calls to it. What the member
// says of itself does not count. founding: it has answered the leader before, as one of the nodes
// that bootstrap the cluster; registered: it is in the metadata, so it may have data.
func review(c raftstore.Configuration, k contact, founding, registered bool, committed uint64, now time.Time) action {
	switch {
	case k.failed != nil && !registered && now.Sub(k.lost) >= unansweredFor:
		return actRemove
	case k.failed != nil || k.since.IsZero() || len(c.Voters()) >= maxVoters:
		return actNothing
	case k.applied < k.goal || k.applied+promotionLag < committed:
		return actNothing
	case !founding && now.Sub(k.since) < stableFor:
		return actNothing
	}
	return actPromote
}

// holderOf returns another member with the address of a node.
func holderOf(c raftstore.Configuration, who identity) (raftstore.Member, bool) {
	for _, m := range c.Members {
		if m.Address == who.Address && m.ID != who.Node {
			return m, true
		}
	}
	return raftstore.Member{}, false
}

// noAddress is the suffix of the address of a member whose address was taken over. It cannot be
// dialed.
const noAddress = ".address-unknown.invalid:1"

// AddressUnknown reports whether a member has no known address because another node has taken
// it over.
func AddressUnknown(address string) bool { return strings.HasSuffix(address, noAddress) }

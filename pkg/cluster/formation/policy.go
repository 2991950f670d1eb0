package formation

import (
	"fmt"
	"strings"

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

// action is the leader's next action for a node that requests membership.
type action string

const (
	actNothing  action = "nothing" // to change
	actRefuse   action = "refuse"
	actAdd      action = "add"      // as a member without a vote
	actRemove   action = "remove"   // it has lost the state of its vote
	actMove     action = "move"     // to another address
	actPromote  action = "promote"  // to a voter
	actDisplace action = "displace" // the member that has its address loses the address
)

// candidate is a node that requests membership.
type candidate struct {
	identity
	fresh   bool   // it has no state
	applied uint64 // index of its last command
}

// neighbours are the nodes that respond at a candidate's present and former addresses. The zero
// identity means that none responds, or that none was queried.
type neighbours struct {
	atName    identity // at the address of the member with the candidate's name
	atAddress identity // at the candidate's address, if it belongs to another member
}

// admit decides about a candidate from the members, the committed index, and the neighbours. The
// error is for actRefuse.
//
// A node that takes over the address of another member is the only one that responds there: the
// other member is dead or has moved. It remains a member without an address, and gets an address
// again when it returns.
func admit(c raftstore.Configuration, committed uint64, who candidate, around neighbours) (action, error) {
	m, known := c.Find(who.Node)
	holder, taken := holderOf(c, who.identity)
	switch {
	case known && around.atName.Node == who.Node && around.atName.Session != who.Session:
		return actRefuse, ErrNodeIDTaken
	case !known && !who.fresh:
		return actRefuse, failure.Removed
	case taken && around.atAddress == who.identity:
		return actDisplace, nil
	case taken && around.atAddress.Node == holder.ID:
		return actRefuse, fmt.Errorf("%w: %s belongs to %s, which responds there: change the cluster-address of one of them", ErrAddressTaken, who.Address, holder.ID)
	case taken:
		return actRefuse, fmt.Errorf("%w: %s belongs to member %s, and %s does not respond there either", errAddressUnclear, who.Address, holder.ID, who.Node)
	case !known:
		return actAdd, nil
	case who.fresh && m.Voter:
		return actRemove, nil
	case m.Address != who.Address:
		return actMove, nil
	case !m.Voter && !who.fresh && len(c.Voters()) < maxVoters && who.applied+promotionLag >= committed:
		return actPromote, nil
	}
	return actNothing, nil
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

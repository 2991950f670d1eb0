package formation

import (
	"fmt"
	"strings"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

const (
	// maxVoters is how many nodes vote. Further ones follow, and one of them
	// gets a vote when a voter is removed for good.
	maxVoters = 5
	// promotionLag is how many commands a node may be behind when it gets a vote.
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

// action is the next thing that the leader does about a node that wants in.
type action uint8

const (
	actNothing action = iota // it is what it is to be
	actRefuse
	actAdd      // as a member without a vote
	actRemove   // it has lost what its vote stood for
	actMove     // to another address
	actPromote  // to a voter
	actDisplace // the member that has its address loses that
)

// String returns what the leader does.
func (a action) String() string {
	switch a {
	case actRefuse:
		return "refuse"
	case actAdd:
		return "add"
	case actRemove:
		return "remove"
	case actMove:
		return "move"
	case actPromote:
		return "promote"
	case actDisplace:
		return "displace"
	case actNothing:
	}
	return "nothing"
}

// candidate is a node that asks to be a member.
type candidate struct {
	identity
	fresh   bool   // it has no state
	applied uint64 // index of its last command
}

// neighbours are who answers where a candidate is or was. The zero identity is
// nobody, or nobody was asked.
type neighbours struct {
	atName    identity // at the address of the member of the candidate's name
	atAddress identity // at the candidate's address, which is that of another member
}

// admit decides about a candidate, given who the members are, how far the
// agreement has come, and who answers around it. The error is that of actRefuse.
//
// A node that takes the address of another member is the only one that answers
// there: the other is dead or has moved. It stays a member and loses its address,
// which it gets again when it comes back.
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

// holderOf returns the other member that has the address of a node.
func holderOf(c raftstore.Configuration, who identity) (raftstore.Member, bool) {
	for _, m := range c.Members {
		if m.Address == who.Address && m.ID != who.Node {
			return m, true
		}
	}
	return raftstore.Member{}, false
}

// noAddress ends the address of a member that lost its own to another. Nothing can
// be reached there.
const noAddress = ".address-unknown.invalid:1"

// AddressUnknown reports whether a member has no known address because another node has taken
// it over.
func AddressUnknown(address string) bool { return strings.HasSuffix(address, noAddress) }

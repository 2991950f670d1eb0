package formation

import (
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
)

const (
	// MaxVoters is how many nodes vote. Further ones follow, and one of them
	// gets a vote when a voter is removed for good.
	MaxVoters = 5
	// promotionLag is how many commands a node may be behind when it gets a vote.
	promotionLag = 256
)

// Tolerance returns how many more voters may fail before nothing can be agreed
// on; negative: that many are missing now. Nodes for which up is false count as
// failed.
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
	actAdd     // as a member without a vote
	actRemove  // it has lost what its vote stood for
	actMove    // to another address
	actPromote // to a voter
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

// admit decides about a candidate, given who the members are, how far the
// agreement has come, and who answers at the address of the member of that name
// (the zero identity: nobody, or nobody was asked). The error is that of
// actRefuse.
func admit(c raftstore.Configuration, committed uint64, who candidate, occupant identity) (action, error) {
	m, known := c.Find(who.Node)
	switch {
	case known && occupant.Node == who.Node && occupant.Session != who.Session:
		return actRefuse, ErrNodeIDTaken
	case !known && !who.fresh:
		return actRefuse, raftstore.ErrRemoved
	case !known:
		return actAdd, nil
	case who.fresh && m.Voter:
		return actRemove, nil
	case m.Address != who.Address:
		return actMove, nil
	case !m.Voter && !who.fresh && len(c.Voters()) < MaxVoters && who.applied+promotionLag >= committed:
		return actPromote, nil
	}
	return actNothing, nil
}

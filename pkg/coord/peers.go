package coord

import (
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Peers is how a replica reaches the nodes that hold the others.
type Peers interface {
	// Follow opens a link for one partition to a node. If a session is already up, Up is called
	// soon, from another goroutine.
	Follow(node meta.NodeID, e LinkEvents) Link
}

// LinkEvents are the callbacks of a link. They are called from any goroutine, one at a time,
// without a lock. Up and Down alternate, except for the Down of a node that refuses
// connections.
type LinkEvents struct {
	// Up: a session began. Nothing that was sent before it is answered in it.
	Up func()
	// Down: the session ended. refused: the connection was refused, which is also reported
	// while no session is up.
	Down func(refused bool)
}

// Link is the way to one node for one partition.
type Link interface {
	replication.Caller
	// Close ends the link. An event that has begun may still be running; none
	// begins afterwards. It does not wait, and may be called from an event.
	Close()
}

// ReplicaView is the metadata of a replica's node.
type ReplicaView struct {
	Node        meta.NodeID
	Incarnation uint64 // of its process
	Down        bool
	Full        bool // its disk is, by the metadata
	// Suspect: it may have lost what it acknowledged, by the metadata, which says that
	// its last epoch and the end of its log were these. One that is Broken cannot be read
	// in full.
	Suspect, Broken bool
	LastEpoch       seq.Epoch
	End             seq.Offset
}

// SuspectAs copies the suspect state of the replica from the partition's metadata.
func (r *ReplicaView) SuspectAs(p *meta.Partition) {
	s, ok := p.SuspectOf(r.Node)
	r.Suspect, r.Broken, r.LastEpoch, r.End = ok, s.Damaged || s.Missing, s.Epoch, s.End
}

// View is a partition's metadata at one version. Its slices are immutable.
type View struct {
	Epoch    seq.Epoch
	Version  uint64        // of the partition: the compare-and-swap token
	Leader   meta.NodeID   // "": none
	Replicas []ReplicaView // in the order of assignment, this node included
	ISR      []meta.NodeID
	MinISR   int
	Sync     meta.SyncPolicy
	Unclean  seq.Epoch // of the last leader that an operator elected though it may lack committed records
}

// ISRChange is a change of the in-sync set that a leader asks for.
type ISRChange struct {
	Epoch       seq.Epoch
	Version     uint64 // that the change is made for
	ISR         []meta.NodeID
	Joiner      meta.NodeID // who is to join; "": a shrink
	Incarnation uint64      // of the joiner, which metadata is to compare
	Why         string      // for people
}

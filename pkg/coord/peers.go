package coord

import (
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Peers connects a replica to the nodes with the other replicas.
type Peers interface {
	// Follow opens a link for one partition to a node. If a session is already up, Up is called
	// soon, from another goroutine.
	Follow(node meta.NodeID, e LinkEvents) Link
}

// LinkEvents are the callbacks of a link. They are called from any goroutine, one at a time,
// without a lock. Up and Down alternate, except for the Down of a node that refuses
// connections.
type LinkEvents struct {
	// Up reports that a session began. Requests sent before are not answered in it.
	Up func()
	// Down reports that the session ended. refused: the connection was refused, which is also
	// reported while there is no session.
	Down func(refused bool)
}

// Link is the connection to one node for one partition.
type Link interface {
	replication.Caller
	// Close ends the link. An event in progress may still run; none begins afterwards. It does not
	// wait, and may be called from an event.
	Close()
}

// ReplicaView is the metadata of a replica's node.
type ReplicaView struct {
	Node        meta.NodeID
	Incarnation uint64 // of its process
	Down        bool
	Full        bool // its disk is full, according to the metadata
	// Suspect: according to the metadata it may have lost acknowledged records, and its log had the
	// following last epoch and end. A Broken one cannot be read completely.
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
	Leader   meta.NodeID   // "" if there is none
	Replicas []ReplicaView // in the order of assignment, this node included
	ISR      []meta.NodeID
	MinISR   int
	Sync     meta.SyncPolicy
	Unclean  seq.Epoch // of the last leader that an operator elected although it may lack committed records
}

// ISRChange is a change of the in-sync set that a leader requests.
type ISRChange struct {
	Epoch       seq.Epoch
	Version     uint64 // for which the change is made
	ISR         []meta.NodeID
	Joiner      meta.NodeID // "" for a removal
	Incarnation uint64      // of the joiner, compared by the metadata
}

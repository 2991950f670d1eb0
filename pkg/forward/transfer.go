package forward

import (
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Transfer asks the leader of a partition to give the leadership to another in-sync
// replica, without failing a publish.
type Transfer struct {
	Topic       string           `json:"topic"`
	Incarnation meta.Incarnation `json:"incarnation"` // refused by another topic with the same name
	Partition   int              `json:"partition"`
	Epoch       seq.Epoch        `json:"epoch,omitempty"` // in which the asked leader leads, which may not have applied it yet
	To          meta.NodeID      `json:"to,omitempty"`    // "": the best one
	Reason      string           `json:"reason,omitempty"`
}

// TransferLeader is requested by the controller and by operators.
const TransferLeader Operation[Transfer, Nothing] = "handover"

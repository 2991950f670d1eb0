package host

import (
	"github.com/brokerd/brokerd/pkg/coord/replication"
	"github.com/brokerd/brokerd/pkg/meta"
)

// HandleReplication answers a request that another node sends as the leader of a
// partition. reply is called once, perhaps before HandleReplication returns. The
// payload is the broker's. What is not held here, or not yet, is answered as not
// ready: the leader asks again.
func (n *shelf) HandleReplication(_ meta.NodeID, kind uint8, payload []byte, reply func([]byte)) {
	at, err := replication.PartitionOf(payload)
	if err == nil {
		if h, ok := n.byIncarnation.Load(at.Topic); ok {
			if hp := h.(*Topic).Held(at.Index); hp != nil {
				hp.Replica.Handle(kind, payload, reply)
				return
			}
		}
	}
	reply(replication.NotReady())
}

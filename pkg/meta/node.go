package meta

import (
	"fmt"
	"maps"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/level"
)

// NodeState is a node's state in the metadata.
type NodeState string

// The states of a node.
const (
	NodeUp       NodeState = "up"
	NodeDown     NodeState = "down"     // not responding, or stopped
	NodeDraining NodeState = "draining" // up, and gets no leadership
)

// Node is a member of the cluster in the metadata. Values returned by State are shared and must
// not be modified.
type Node struct {
	ID             NodeID      `json:"id"`
	Hostname       string      `json:"hostname,omitempty"`
	TCPAddress     string      `json:"tcp_address,omitempty"`     // host:port for clients
	HTTPAddress    string      `json:"http_address,omitempty"`    // host:port
	HTTPSAddress   string      `json:"https_address,omitempty"`   // host:port; "": none
	ClusterAddress string      `json:"cluster_address,omitempty"` // host:port for other nodes
	Zone           string      `json:"zone,omitempty"`            // failure domain; "" if none is given
	Version        string      `json:"version,omitempty"`         // of its program
	BootID         string      `json:"boot_id,omitempty"`         // of its kernel: a different one means that unsynced data is gone
	Levels         level.Range `json:"levels,omitzero"`           // feature levels that its program supports
	State          NodeState   `json:"state"`
	Incarnation    uint64      `json:"incarnation"`      // number of starts of its process
	Intent         NodeIntent  `json:"intent,omitempty"` // operator's request

	// MaxPartitions is how many replicas the node takes before it is given no new ones; 0: no limit. Those that it has
	// stay, and moves to the node are not bounded.
	MaxPartitions int `json:"max_partitions,omitempty"`

	// DiskFull: the node reported that its disk is full. It leads only if no other in-sync
	// replica can.
	DiskFull bool `json:"disk_full,omitempty"`

	// LostPower: its machine lost power, and it has not stopped cleanly since: unsynced data
	// may be lost.
	LostPower bool `json:"lost_power,omitempty"`

	// Disk is the data directory of its last start.
	Disk Disk `json:"disk,omitzero"`

	// Outdated: it started with another data directory than before, or an older copy of it. The node has left
	// every in-sync set, and sets aside the replicas that it found there.
	Outdated bool `json:"outdated,omitempty"`
}

// MayHold reports whether new replicas may be placed on the node: it is up, or draining and not
// being decommissioned.
func (n *Node) MayHold() bool {
	return n.State == NodeUp || n.State == NodeDraining && n.Intent != IntentDecommission
}

func (n *Node) validate() error {
	if err := checkNode(n.ID); err != nil {
		return err
	}
	if n.MaxPartitions < 0 {
		return fmt.Errorf("%w: node %q: at most %d partitions", failure.InvalidConfig, n.ID, n.MaxPartitions)
	}
	if !n.Levels.Valid() {
		return fmt.Errorf("%w: node %q: feature levels %v", failure.InvalidConfig, n.ID, n.Levels)
	}
	for _, text := range []string{n.Hostname, n.TCPAddress, n.HTTPAddress, n.HTTPSAddress, n.ClusterAddress, n.Zone, n.Version, n.BootID} {
		if len(text) > maxTextLength {
			return fmt.Errorf("%w: node %q: field of %d bytes is too long", failure.LimitReached, n.ID, len(text))
		}
	}
	return nil
}

func (s NodeState) valid() bool { return s == NodeUp || s == NodeDown || s == NodeDraining }

// Load is the current load of a node.
type Load struct {
	Replicas int   // of all topics
	Leaders  int   // among them
	Bytes    int64 // of their logs
}

// Load returns the number of replicas and leaderships of each node according to the metadata,
// without bytes.
func (s *State) Load() map[NodeID]Load {
	out := make(map[NodeID]Load, len(s.nodes))
	maps.Copy(out, s.topics.load)
	return out
}

// StayingNodes returns the number of nodes that are not being decommissioned.
func StayingNodes(s *State) int {
	n := 0
	for _, node := range s.nodes {
		if node.Intent != IntentDecommission {
			n++
		}
	}
	return n
}

// WantedReplicas returns the number of replicas of a topic whose operator named none: the number of
// permanent nodes, up to DefaultReplicas.
func WantedReplicas(s *State) int { return min(max(StayingNodes(s), 1), DefaultReplicas) }

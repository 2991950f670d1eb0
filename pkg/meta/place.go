package meta

import "maps"

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

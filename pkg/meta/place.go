package meta

import "maps"

// Load is what a node already carries.
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

// StayingNodes returns how many nodes there are that are not being decommissioned.
func StayingNodes(s *State) int {
	n := 0
	for _, node := range s.nodes {
		if node.Intent != IntentDecommission {
			n++
		}
	}
	return n
}

// WantedReplicas returns how many replicas a topic is to have whose operator named
// no number: as many as there are nodes to stay, up to DefaultReplicas.
func WantedReplicas(s *State) int { return min(max(StayingNodes(s), 1), DefaultReplicas) }

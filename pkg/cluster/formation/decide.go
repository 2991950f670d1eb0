package formation

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Permanent reasons why a node cannot join a cluster.
var (
	// ErrNodeIDTaken: two processes with one node id run. Refused.
	ErrNodeIDTaken = fate.Refuse("two running nodes have one node-id: stop one of them, or give it a node-id and a data-dir of its own")
	// ErrTwoClusters: the join addresses belong to different clusters. Refused.
	ErrTwoClusters = fate.Refuse("join addresses belong to different clusters")
	// ErrOtherCluster: the nodes belong to different clusters. Refused.
	ErrOtherCluster = fate.Refuse("node belongs to another cluster")
	// ErrAddressTaken: another member responds at the node's address. Refused.
	ErrAddressTaken = fate.Refuse("cluster address is in use by another member")
	// ErrJoinToken: the cluster admits nodes by join tokens, and the node has no valid one. Refused.
	ErrJoinToken = fate.Refuse("no valid join token")

	// ErrOpenPort: access control is on, and the node cannot prove that it is one. Refused.
	ErrOpenPort = fate.Refuse("access control is on, but the cluster port is open: set cluster-secret-file of all nodes to the same file, and restart them together")
	// ErrNotSender: a node asked in the name of another. Refused.
	ErrNotSender = fate.Refuse("request in the name of another node")

	errAddressUnclear = fate.Refuse("cluster address is registered to another member")
	errUnanswered     = fate.Refuse("the metadata leader gets no answer from the node at its cluster address: correct cluster-address or advertise-cluster-address, or let the other nodes connect to it")
	errManyUnanswered = fate.Refuse("too many members do not answer the metadata leader: remove them, or wait until they are removed")
)

// identity is one process of a node.
type identity struct {
	Node    meta.NodeID `json:"node"`
	Address string      `json:"address"` // for other nodes
	Session uint64      `json:"session"` // differs for each process
}

// seen is a node's description of itself.
type seen struct {
	identity
	Member  bool          `json:"member,omitempty"`  // it has a cluster's metadata
	Cluster string        `json:"cluster,omitempty"` // id; "": not known yet
	Expect  int           `json:"expect,omitempty"`
	Sees    []meta.NodeID `json:"sees,omitempty"`    // nodes that responded to it, if it has no cluster
	Applied uint64        `json:"applied,omitempty"` // index of its last command
}

func has(all []seen, id meta.NodeID) bool {
	return slices.ContainsFunc(all, func(s seen) bool { return s.Node == id })
}

// step is the next action of a node without state.
type step struct {
	do     stepKind
	others []seen // to join through, or to bootstrap with
	reason string // of stepWait
	err    error  // of stepStop
}

type stepKind uint8

const (
	stepWait  stepKind = iota
	stepJoin           // the cluster of others
	stepFound          // a new cluster, once the others are bound
	stepStop           // it cannot join a cluster
)

// next decides from the node's identity, the number of nodes it expects, and the answers from the
// join addresses. asked is the number of these addresses.
func next(self identity, expect, asked int, answers []seen) step {
	others, err := distinct(self, answers)
	if err != nil {
		return step{do: stepStop, err: err}
	}
	var members, fresh []seen
	cluster, nameless := "", meta.NodeID("")
	for _, s := range current(others) {
		switch {
		case !s.Member:
			fresh = append(fresh, s)
		case s.Cluster == "":
			nameless = s.Node
		case cluster != "" && s.Cluster != cluster:
			return step{do: stepStop, err: fmt.Errorf("%w: %s and %s", ErrTwoClusters, cluster, s.Cluster)}
		default:
			cluster = s.Cluster
			members = append(members, s)
		}
	}
	if len(members) > 0 {
		return step{do: stepJoin, others: members}
	}
	if nameless != "" {
		return step{reason: fmt.Sprintf("%s is a cluster member but has not learned its cluster id yet", nameless)}
	}
	if expect == 1 && len(answers) == asked && len(others) == 0 {
		return step{do: stepFound} // alone, and no other address given
	}
	return found(self, expect, fresh)
}

// current omits the members of clusters from which another seen cluster was recovered: the
// recovered one is the current cluster.
func current(all []seen) []seen {
	return slices.DeleteFunc(slices.Clone(all), func(s seen) bool {
		return slices.ContainsFunc(all, func(o seen) bool { return o.Member && s.Member && meta.Supersedes(o.Cluster, s.Cluster) })
	})
}

// distinct returns the answers of other nodes without duplicates, by id.
func distinct(self identity, answers []seen) ([]seen, error) {
	all := slices.Clone(answers)
	slices.SortFunc(all, func(a, b seen) int { return cmp.Compare(a.Node, b.Node) })
	var out []seen
	for _, s := range all {
		if s.Node == self.Node {
			if s.Session != self.Session {
				return nil, fmt.Errorf("%w (%s runs at %s)", ErrNodeIDTaken, s.Node, s.Address)
			}
			continue
		}
		if k := len(out); k > 0 && out[k-1].Node == s.Node {
			if out[k-1].Session != s.Session {
				return nil, fmt.Errorf("%w (%s runs at %s and %s)", ErrNodeIDTaken, s.Node, s.Address, out[k-1].Address)
			}
			continue
		}
		out = append(out, s)
	}
	return out, nil
}

// found decides if no cluster is visible: the node with the smallest id of those expected
// bootstraps one, once they see each other.
func found(self identity, expect int, fresh []seen) step {
	if expect < 2 {
		return step{reason: fmt.Sprintf("no cluster member responds, and bootstrap-expect %d does not form a new cluster with other nodes", expect)}
	}
	var with []seen
	for _, s := range fresh {
		if s.Expect != expect {
			return step{reason: fmt.Sprintf("bootstrap-expect differs: %d on %s, %d on this node", s.Expect, s.Node, expect)}
		}
		if slices.Contains(s.Sees, self.Node) {
			with = append(with, s)
		}
	}
	switch {
	case len(with)+1 < expect:
		return step{reason: fmt.Sprintf("%d of %d nodes see each other", len(with)+1, expect)}
	case with[0].Node < self.Node:
		return step{reason: fmt.Sprintf("waiting for %s to bootstrap the cluster", with[0].Node)}
	}
	return step{do: stepFound, others: with[:expect-1]}
}

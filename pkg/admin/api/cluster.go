package api

// NodeState is what the cluster thinks of a node.
type NodeState string

// The states of a node.
const (
	NodeUp       NodeState = "up"
	NodeDown     NodeState = "down"
	NodeDraining NodeState = "draining"
)

// Node describes one node. Its addresses are those it advertises.
type Node struct {
	ID             string    `json:"id"`
	State          NodeState `json:"state"`
	Voter          bool      `json:"voter"` // votes on metadata
	TCPAddress     string    `json:"tcp_address"`
	HTTPAddress    string    `json:"http_address"`
	ClusterAddress string    `json:"cluster_address"`
	Zone           string    `json:"zone"`
	Version        string    `json:"version"`
	Incarnation    uint64    `json:"incarnation"` // changes when the node starts anew
}

// NodeList is every node, by id.
type NodeList struct {
	Nodes []Node `json:"nodes"`
}

// Cluster describes the cluster as the node that answers sees it.
type Cluster struct {
	ClusterID  string `json:"cluster_id"`
	Controller string `json:"controller"` // leads the metadata; "": none known
	Self       string `json:"self"`       // the node that answers
	Nodes      []Node `json:"nodes"`      // by id
}

// Health is the cluster's health. Degraded: it serves, with less safety than it
// should have; a cluster that is not healthy and not degraded fails someone now.
type Health struct {
	Healthy  bool     `json:"healthy"`
	Degraded bool     `json:"degraded"`
	Reasons  []Reason `json:"reasons"` // the gravest first
}

// Reason is one kind of trouble.
type Reason struct {
	Code  string `json:"code"` // such as no_leader, disk_full, nodes_down
	Count int    `json:"count"`
	What  string `json:"what"` // for people
}

package api

import (
	"context"
	"strings"

	"github.com/brokerd/brokerd/pkg/health"
)

// NodeState is the state of a node in the metadata.
type NodeState string

// The states of a node.
const (
	NodeUp       NodeState = "up"
	NodeDown     NodeState = "down"
	NodeDraining NodeState = "draining"
)

// Node describes one node and its advertised addresses.
type Node struct {
	ID             string    `json:"id"`
	State          NodeState `json:"state"`
	Silent         bool      `json:"silent"` // it does not answer the node that was asked
	Voter          bool      `json:"voter"`  // votes on metadata
	TCPAddress     string    `json:"tcp_address"`
	HTTPAddress    string    `json:"http_address"`
	ClusterAddress string    `json:"cluster_address"`
	Zone           string    `json:"zone"`
	Version        string    `json:"version"`
	Incarnation    uint64    `json:"incarnation"` // changes at each start of the node
	Intent         Intent    `json:"intent"`      // what an operator has requested
	Leaders        int       `json:"leaders"`     // partitions that it leads
	Replicas       int       `json:"replicas"`    // partitions that it holds a copy of
	Levels         Levels    `json:"levels"`      // feature levels that its program supports
	Hostname       string    `json:"hostname"`
	HTTPSAddress   string    `json:"https_address"`
}

// URL returns the address of the node itself, over TLS if secure: a token must not be sent without
// TLS, so it never falls back to plain HTTP. "": the node advertises no such address.
func (n *Node) URL(secure bool) string {
	scheme, at := "http://", n.HTTPAddress
	if secure {
		scheme, at = "https://", n.HTTPSAddress
	}
	if at == "" || strings.Contains(at, "://") {
		return at
	}
	return scheme + at
}

// Intent is what an operator requested for a node. The latest request wins.
type Intent string

// The intents.
const (
	IntentNone         Intent = ""
	IntentDrain        Intent = "drain"        // lead no partition
	IntentDecommission Intent = "decommission" // also move its replicas to other nodes
)

// NodeList is every node, by id.
type NodeList struct {
	Nodes        []Node             `json:"nodes"`
	Unregistered []UnregisteredNode `json:"unregistered"`
}

// UnregisteredNode is a member of the metadata's Raft group that is not a node of the metadata: it is
// joining, or the metadata leader does not reach it.
type UnregisteredNode struct {
	ID             string `json:"id"`
	ClusterAddress string `json:"cluster_address"`
	Voter          bool   `json:"voter"`
	Silent         bool   `json:"silent"` // it does not answer the node that was asked
	Reason         string `json:"reason"` // why the metadata leader does not reach it; "": it does, or has not tried for long
}

// Cluster describes the cluster as seen by the answering node.
type Cluster struct {
	ClusterID  string `json:"cluster_id"`
	Controller string `json:"controller"` // leads the metadata; "": none known
	Self       string `json:"self"`       // the node that answers
	Nodes      []Node `json:"nodes"`      // by id
	Level      uint32 `json:"level"`      // the feature level of the cluster
	Attainable uint32 `json:"attainable"` // the highest level that every node supports
}

// NodeDetail describes one node and its role in the cluster. Left counts what remains before the
// node can be stopped (drain) or removed (decommission).
type NodeDetail struct {
	Node
	Partitions []NodePartition `json:"partitions"` // by topic and number
	Left       Progress        `json:"left"`
	Removable  bool            `json:"removable"` // it holds nothing and is being decommissioned, or is down
	Troubles   []Trouble       `json:"troubles"`  // with partitions that the controller cannot move away
	// IfStopped are the partitions that would have no leader (drain), or would refuse messages
	// (min_isr), if the node stopped now.
	IfStopped []Trouble `json:"if_stopped"`
	// DeletedTopics is the number of deleted topics of which the node has a copy; copies are not
	// moved. OnlyCopies names those that cannot be restored without the node.
	DeletedTopics int      `json:"deleted_topics,omitempty"`
	OnlyCopies    []string `json:"only_copies,omitempty"`
}

// NodePartition is a node's role in one partition.
type NodePartition struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Leader    bool   `json:"leader"`
	InSync    bool   `json:"in_sync"`
	Adding    bool   `json:"adding"`   // its replica is being copied
	Removing  bool   `json:"removing"` // its copy is about to go
}

// Progress is the remaining work of an operation. Bytes, rate and time cover the copies in
// progress; queued ones are only counted.
type Progress struct {
	Leaders        int      `json:"leaders"`          // leaderships still to be transferred
	Replicas       int      `json:"replicas"`         // partitions still to be moved
	Moving         int      `json:"moving"`           // of those, under way
	Bytes          int64    `json:"bytes"`            // still to be copied
	BytesPerSecond int64    `json:"bytes_per_second"` // of late, over all copies
	TimeLeft       Duration `json:"time_left"`        // at that rate; 0s: not known
	TimeLeftMS     int64    `json:"time_left_ms"`
}

// Trouble is an action that the controller cannot carry out for a partition.
type Trouble struct {
	Kind      string   `json:"kind"` // offline, drain, no_room, move or min_isr
	Topic     string   `json:"topic"`
	Partition int      `json:"partition"`
	Nodes     []string `json:"nodes"` // that it is about
	What      string   `json:"what"`  // for people
}

// DrainNode requests that a node lead nothing. Without Force it is refused if a partition would
// have no leader; with Stopping also if one would fall below its min ISR while the node is
// down.
type DrainNode struct {
	Force    bool `json:"force,omitempty"`
	Stopping bool `json:"stopping,omitempty"`
	DryRun   bool `json:"dry_run,omitempty"` // only check whether it is possible; the response is the unchanged node
}

// Balance is the distribution of leaders and replicas, and a plan to improve it.
type Balance struct {
	Nodes   []NodeLoad   `json:"nodes"`   // by id
	Leaders []LeaderMove `json:"leaders"` // leaderships that could go to their preferred replica
	Moves   []Move       `json:"moves"`   // replicas that could move
	Started bool         `json:"started"` // the changes were started
}

// NodeLoad is a node's share of all partitions.
type NodeLoad struct {
	ID        string    `json:"id"`
	State     NodeState `json:"state"`
	Zone      string    `json:"zone"`
	Leaders   int       `json:"leaders"`
	Preferred int       `json:"preferred"` // partitions whose preferred leader it is
	Replicas  int       `json:"replicas"`
}

// LeaderMove is a change of one partition's leader.
type LeaderMove struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	From      string `json:"from"`
	To        string `json:"to"`
}

// Move is a change of one partition's replicas, preferred leader first.
type Move struct {
	Topic     string   `json:"topic"`
	Partition int      `json:"partition"`
	From      []string `json:"from"`
	To        []string `json:"to"`
}

// StartBalance requests balancing of leaders, replicas, or both. Limit bounds the replica
// moves; 0 means the broker's default.
type StartBalance struct {
	Leaders  bool `json:"leaders,omitempty"`
	Replicas bool `json:"replicas,omitempty"`
	Limit    int  `json:"limit,omitempty"`
	DryRun   bool `json:"dry_run,omitempty"` // only return what would be started
}

// Raft describes the metadata's Raft group.
type Raft struct {
	Leader    string       `json:"leader"` // the controller; "": none known
	Term      uint64       `json:"term"`
	Voters    int          `json:"voters"`
	Tolerance int          `json:"tolerance"` // voters that may still fail; negative: that many are missing
	Members   []RaftMember `json:"members"`   // by id
}

// DecommissionNode requests that a node's replicas be moved away. Without Force it is refused
// if the other nodes are too few.
type DecommissionNode struct {
	Force  bool `json:"force,omitempty"`
	DryRun bool `json:"dry_run,omitempty"` // only check whether it is possible; the response is the unchanged node
}

// RaftMember is one member of the Raft group. Fields after Address are known only for nodes
// that answered.
type RaftMember struct {
	ID            string   `json:"id"`
	Voter         bool     `json:"voter"`
	Address       string   `json:"address"`
	Answered      bool     `json:"answered"`
	Leader        bool     `json:"leader"`
	Term          uint64   `json:"term"`
	LastIndex     uint64   `json:"last_index"`
	CommitIndex   uint64   `json:"commit_index"`
	AppliedIndex  uint64   `json:"applied_index"`
	SnapshotIndex uint64   `json:"snapshot_index"`
	LastContact   Duration `json:"last_contact"` // since it heard of the leader; negative: never
	LastContactMS int64    `json:"last_contact_ms"`
	StoreBytes    int64    `json:"store_bytes"`
}

// Health is the cluster's health.
type Health = health.Report

// Reason is one finding.
type Reason = health.Reason

// Levels is the range of feature levels that a program supports, inclusive.
type Levels struct {
	Min uint32 `json:"min"`
	Max uint32 `json:"max"`
}

// Upgrade is the progress of an upgrade of the cluster.
type Upgrade struct {
	Level        uint32   `json:"level"`        // the feature level of the cluster
	Target       uint32   `json:"target"`       // that the program of the node that answers supports at most
	Lagging      []string `json:"lagging"`      // nodes that do not support the target level, with their levels
	Unregistered []string `json:"unregistered"` // members with unknown levels
	Finalized    bool     `json:"finalized"`    // the cluster has the target
}

// FinalizeUpgrade raises the feature level to the highest that all nodes support.
type FinalizeUpgrade struct {
	DryRun bool `json:"dry_run,omitempty"` // only look
}

// Upgrades are the requests about upgrades. A Client implements them.
type Upgrades struct{ t *transport }

// Finalize raises the feature level of the cluster; older releases can no longer join.
func (c Upgrades) Finalize(ctx context.Context, req FinalizeUpgrade) (*Upgrade, error) {
	return post[Upgrade](ctx, c.t, path("cluster", "finalize-upgrade"), req)
}

// MetadataSnapshot is the metadata of a cluster as known on one node: nodes, topics, channels and
// their settings, users and rules, and the audit log, without messages and positions. It contains
// hashes of passwords.
type MetadataSnapshot struct {
	Node  string `json:"node"`  // that was asked
	Index uint64 `json:"index"` // of the last change in it
	// Content is the file that brokerctl snapshot save writes, with a checksum of its own.
	Content []byte `json:"content"`
}

// PathSnapshot is the path of a node's MetadataSnapshot.
const PathSnapshot = "/v1/snapshot"

// MetadataSnapshot returns the metadata as the node knows it that answers.
func (o Insights) MetadataSnapshot(ctx context.Context) (*MetadataSnapshot, error) {
	return into[MetadataSnapshot](ctx, o.t, PathSnapshot)
}

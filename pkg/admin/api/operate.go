package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// Operations are the requests about a cluster's nodes and the placement of its partitions. A
// Client implements them.
type Operations struct{ t *transport }

// Node describes one node and its state.
func (c Operations) Node(ctx context.Context, id string) (*NodeDetail, error) {
	return into[NodeDetail](ctx, c.t, path("nodes", id))
}

// DrainNode requests that a node lead nothing. It returns once that is committed; leaderships
// are transferred in the background.
func (c Operations) DrainNode(ctx context.Context, id string, req DrainNode) (*NodeDetail, error) {
	return post[NodeDetail](ctx, c.t, path("nodes", id, "drain"), req)
}

// UndrainNode cancels a drain or a decommission.
func (c Operations) UndrainNode(ctx context.Context, id string) (*NodeDetail, error) {
	return post[NodeDetail](ctx, c.t, path("nodes", id, "undrain"), nil)
}

// DecommissionNode requests that a node's replicas be moved away. It returns once that is
// committed; replicas are moved in the background.
func (c Operations) DecommissionNode(ctx context.Context, id string, req DecommissionNode) (*NodeDetail, error) {
	return post[NodeDetail](ctx, c.t, path("nodes", id, "decommission"), req)
}

// RemoveNode is a request to remove a node. It is refused if the node has the only copy of a
// deleted topic, unless LoseDeleted is set. A dry run changes nothing.
type RemoveNode struct{ LoseDeleted, DryRun bool }

// RemoveNode permanently removes a node that holds nothing.
func (c Operations) RemoveNode(ctx context.Context, id string, req RemoveNode) error {
	where := path("nodes", id)
	q := url.Values{}
	if req.LoseDeleted {
		q.Set("lose_deleted", "true")
	}
	if req.DryRun {
		q.Set("dry_run", "true")
	}
	if len(q) > 0 {
		where += "?" + q.Encode()
	}
	return c.t.send(ctx, http.MethodDelete, where, nil, nil)
}

// Partition describes one partition and its followers.
func (c Operations) Partition(ctx context.Context, topic string, partition int) (*PartitionDetail, error) {
	return into[PartitionDetail](ctx, c.t, partitionPath(topic, partition))
}

// TransferLeader transfers a partition's leadership to another in-sync replica, and returns
// when it leads.
func (c Operations) TransferLeader(ctx context.Context, topic string, partition int, req TransferLeader) (*PartitionDetail, error) {
	return post[PartitionDetail](ctx, c.t, partitionPath(topic, partition, "transfer"), req)
}

// ElectLeader elects a leader of a partition.
func (c Operations) ElectLeader(ctx context.Context, topic string, partition int, req ElectLeader) (*PartitionDetail, error) {
	return post[PartitionDetail](ctx, c.t, partitionPath(topic, partition, "elect"), req)
}

// MovePartition starts moving a partition's replicas, in the background.
func (c Operations) MovePartition(ctx context.Context, topic string, partition int, req MovePartition) (*PartitionDetail, error) {
	return post[PartitionDetail](ctx, c.t, partitionPath(topic, partition, "move"), req)
}

// CancelMove reverts a move to the previous replicas.
func (c Operations) CancelMove(ctx context.Context, topic string, partition int) (*PartitionDetail, error) {
	out := new(PartitionDetail)
	return out, c.t.send(ctx, http.MethodDelete, partitionPath(topic, partition, "move"), nil, out)
}

// Balance returns the distribution of leaders and replicas, and a plan to improve it.
func (c Operations) Balance(ctx context.Context) (*Balance, error) {
	return into[Balance](ctx, c.t, path("cluster", "balance"))
}

// StartBalance starts balancing and returns the started moves.
func (c Operations) StartBalance(ctx context.Context, req StartBalance) (*Balance, error) {
	return post[Balance](ctx, c.t, path("cluster", "balance"), req)
}

// Raft describes the metadata's Raft group.
func (c Operations) Raft(ctx context.Context) (*Raft, error) {
	return into[Raft](ctx, c.t, path("cluster", "raft"))
}

// TransferController transfers metadata leadership to another voter.
func (c Operations) TransferController(ctx context.Context) (*Raft, error) {
	return post[Raft](ctx, c.t, path("cluster", "raft", "transfer"), nil)
}

// post sends an object, or none, and gets one.
func post[T any](ctx context.Context, t *transport, path string, in any) (*T, error) {
	out := new(T)
	return out, t.send(ctx, http.MethodPost, path, in, out)
}

func partitionPath(topic string, partition int, more ...string) string {
	return path(append([]string{"topics", topic, "partitions", strconv.Itoa(partition)}, more...)...)
}

package api

import (
	"context"
	"net/http"
	"strconv"
)

// Operations are the requests that look at and change a cluster's nodes and the
// placement of its partitions. A Client has them.
type Operations struct{ t *transport }

// Node describes one node and what it does.
func (c Operations) Node(ctx context.Context, id string) (*NodeDetail, error) {
	return into[NodeDetail](ctx, c.t, path("nodes", id))
}

// DrainNode asks that a node lead nothing. It returns once that is agreed on;
// the leaderships go by themselves.
func (c Operations) DrainNode(ctx context.Context, id string, req DrainNode) (*NodeDetail, error) {
	return post[NodeDetail](ctx, c.t, path("nodes", id, "drain"), req)
}

// UndrainNode takes back a drain or a decommission.
func (c Operations) UndrainNode(ctx context.Context, id string) (*NodeDetail, error) {
	return post[NodeDetail](ctx, c.t, path("nodes", id, "undrain"), nil)
}

// DecommissionNode asks that a node's replicas move away. It returns once that
// is agreed on; they go by themselves.
func (c Operations) DecommissionNode(ctx context.Context, id string, req DecommissionNode) (*NodeDetail, error) {
	return post[NodeDetail](ctx, c.t, path("nodes", id, "decommission"), req)
}

// RemoveNode takes a node that holds nothing out of the cluster for good.
func (c Operations) RemoveNode(ctx context.Context, id string) error {
	return c.t.send(ctx, http.MethodDelete, path("nodes", id), nil, nil)
}

// Partition describes one partition and its followers.
func (c Operations) Partition(ctx context.Context, topic string, partition int) (*PartitionDetail, error) {
	return into[PartitionDetail](ctx, c.t, partitionPath(topic, partition))
}

// TransferLeader has another in-sync replica lead a partition, and returns when
// it does.
func (c Operations) TransferLeader(ctx context.Context, topic string, partition int, req TransferLeader) (*PartitionDetail, error) {
	return post[PartitionDetail](ctx, c.t, partitionPath(topic, partition, "transfer"), req)
}

// ElectLeader gives a partition a leader.
func (c Operations) ElectLeader(ctx context.Context, topic string, partition int, req ElectLeader) (*PartitionDetail, error) {
	return post[PartitionDetail](ctx, c.t, partitionPath(topic, partition, "elect"), req)
}

// MovePartition starts to move a partition's replicas. They go by themselves.
func (c Operations) MovePartition(ctx context.Context, topic string, partition int, req MovePartition) (*PartitionDetail, error) {
	return post[PartitionDetail](ctx, c.t, partitionPath(topic, partition, "move"), req)
}

// CancelMove takes a move back: to the replicas from before it.
func (c Operations) CancelMove(ctx context.Context, topic string, partition int) (*PartitionDetail, error) {
	out := new(PartitionDetail)
	return out, c.t.send(ctx, http.MethodDelete, partitionPath(topic, partition, "move"), nil, out)
}

// Balance shows how leaders and replicas are spread, and what would spread them
// better.
func (c Operations) Balance(ctx context.Context) (*Balance, error) {
	return into[Balance](ctx, c.t, path("cluster", "balance"))
}

// StartBalance carries out a balance, and returns what it has started.
func (c Operations) StartBalance(ctx context.Context, req StartBalance) (*Balance, error) {
	return post[Balance](ctx, c.t, path("cluster", "balance"), req)
}

// Raft describes the agreement on metadata.
func (c Operations) Raft(ctx context.Context) (*Raft, error) {
	return into[Raft](ctx, c.t, path("cluster", "raft"))
}

// TransferController has another voter lead the metadata.
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

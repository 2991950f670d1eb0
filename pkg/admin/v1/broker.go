package v1

import (
	"context"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
)

// TopicReader knows the topics of the cluster.
type TopicReader interface {
	// Topics returns every topic, sorted by name. The result must not be changed.
	Topics() []*meta.Topic
	// Topic returns one topic, or an error that wraps failure.TopicNotFound.
	Topic(name string) (*meta.Topic, error)
}

// TopicWriter changes topics. Every call returns once this node has the change.
type TopicWriter interface {
	// CreateTopic creates a topic; zero fields of cfg get defaults. If a topic with the same
	// configuration exists, it is not an error; with another one, the error is
	// failure.TopicExists.
	CreateTopic(ctx context.Context, name string, cfg meta.TopicConfig) (*meta.Topic, error)
	// AlterTopic applies change to the topic's configuration. change may be
	// called more than once.
	AlterTopic(ctx context.Context, name string, change func(*meta.TopicConfig)) error
	AddPartitions(ctx context.Context, name string, total int) error
	DeleteTopic(ctx context.Context, name string) error
	PauseTopic(ctx context.Context, name string, paused bool) error
}

// Plans says what the creation of a topic would do.
type Plans interface {
	// PlanTopic returns the topic that CreateTopic would return, without creating it.
	PlanTopic(name string, cfg meta.TopicConfig) (*meta.Topic, error)
	// MessageLimit returns the size in bytes of the largest message that every node takes from its
	// clients, and the node with this limit.
	MessageLimit(ctx context.Context) (bytes int, node meta.NodeID)
}

// ReplicaFitter changes how many replicas there are.
type ReplicaFitter interface {
	// FitReplicas starts to give each partition of a topic the configured number of replicas, and
	// returns how many partitions are not started yet.
	FitReplicas(ctx context.Context, topic string) (waiting int, err error)
}

// Trash is the topics that were deleted and can be restored.
type Trash interface {
	// Deleted returns them, the last deleted first. They must not be changed.
	Deleted() []*meta.Deleted
	// Restore brings one back; of an incarnation, or the only one of the name (0).
	Restore(ctx context.Context, c meta.RestoreTopic) (*meta.Topic, error)
	// Purge deletes a topic permanently: the current one (0), or the one with the incarnation,
	// which may be in the trash.
	Purge(ctx context.Context, name string, in meta.Incarnation) error
}

// Upgrades is the feature level of the cluster.
type Upgrades interface {
	// Upgrade returns the progress of an upgrade.
	Upgrade() api.Upgrade
	// Finalize raises the feature level to that of this node's program.
	Finalize(ctx context.Context) (api.Upgrade, error)
}

// ContentWriter changes the contents of topics and channels.
type ContentWriter interface {
	// EmptyTopic drops the messages that no channel has got yet.
	EmptyTopic(ctx context.Context, name string) error
	DeleteChannel(ctx context.Context, topic, channel string) error
	EmptyChannel(ctx context.Context, topic, channel string) error
	PauseChannel(ctx context.Context, topic, channel string, paused bool) error
	SeekChannel(ctx context.Context, topic, channel string, to operate.SeekTo) error
}

// Policies is how channels treat messages that fail.
type Policies interface {
	// CreateChannel creates a channel with a policy. An existing channel is not changed.
	CreateChannel(ctx context.Context, c meta.CreateChannel) error
	// AlterChannel changes a durable channel.
	AlterChannel(ctx context.Context, c meta.AlterChannel) error
	// ChannelDefaults returns the policy of channels that choose nothing and whose topics
	// do not either.
	ChannelDefaults() policy.Policy
	// LettersOf returns the dead-letter topic of a channel; "" if none yet.
	LettersOf(t *meta.Topic, channel string) string
	// DeadLetters lists the channels that have dead letters, or may have some.
	DeadLetters(ctx context.Context, topicFilter, channelFilter string) []api.DeadLetters
	// RedriveOrPurge brings dead letters back, or finishes them.
	RedriveOrPurge(ctx context.Context, a operate.DeadLetterAction) (deadletter.Processed, error)
}

// Observer reads messages and counts, and changes nothing.
type Observer interface {
	// ClusterStats describes topics and their channels over all nodes that lead them,
	// sorted by name. A filter that is "" lets all pass. Clients are listed if asked
	// for.
	ClusterStats(ctx context.Context, topicFilter, channelFilter string, clients bool) []stats.Topic
	Peek(ctx context.Context, p operate.Peek) ([]operate.Peeked, error)
	// Digest compares the replicas of a topic's partitions.
	Digest(ctx context.Context, topic string) ([]api.PartitionDigest, error)
}

// Audit returns cluster events and operators' changes.
type Audit interface {
	// RecordAct adds to the audit log, and logs.
	RecordAct(ctx context.Context, a meta.Act)
	Journal() meta.Journal
}

// Positions knows where channels were before operators moved them.
type Positions interface {
	// PlanMove returns the effect of SeekChannel without performing it.
	PlanMove(ctx context.Context, topic, channel string, to *operate.SeekTo) ([]api.PartitionMove, error)
	// ChannelHistory returns the saved positions of a channel, the last first.
	ChannelHistory(topic, channel string) ([]*meta.Saved, error)
	// UndoChannel undoes the last move.
	UndoChannel(ctx context.Context, topic, channel string) (api.UndoneMove, error)
	// RestoreChannel brings back a channel that was deleted. replace: also where one of the name was
	// created since.
	RestoreChannel(ctx context.Context, topic, channel string, replace bool) (api.UndoneMove, error)
}

// MessageOperator handles single messages.
type MessageOperator interface {
	// FinishMessage finishes a message in a channel wherever it is, and returns where
	// it was.
	FinishMessage(ctx context.Context, topic, channel string, partition int, offset seq.Offset) (api.PeekState, error)
}

// ClusterReader returns the state of the cluster as known on this node.
type ClusterReader interface {
	Cluster() api.Cluster
	// ClusterHealth is the cluster's.
	ClusterHealth(ctx context.Context) health.Report
}

// NodeOperator changes nodes. What it starts continues automatically.
type NodeOperator interface {
	DescribeNode(ctx context.Context, id meta.NodeID) (api.NodeDetail, error)
	// DrainNode requests that a node lead nothing. It is refused if a partition would lose its
	// leader, or with stopping fall below its minimum ISR, unless it is forced.
	// A dry run changes nothing.
	DrainNode(ctx context.Context, id meta.NodeID, req api.DrainNode) error
	// UndrainNode cancels a drain or a decommission.
	UndrainNode(ctx context.Context, id meta.NodeID) error
	// DecommissionNode asks that a node's replicas move away. A dry run changes nothing.
	DecommissionNode(ctx context.Context, id meta.NodeID, force, dryRun bool) error
	// RemoveNode removes a node without replicas from the cluster. It is refused if the node has the
	// only copy of a deleted topic, unless loseDeleted is set. A dry run changes nothing.
	RemoveNode(ctx context.Context, id meta.NodeID, loseDeleted, dryRun bool) error
}

// PartitionOperator handles leaders and replicas.
type PartitionOperator interface {
	DescribePartition(ctx context.Context, topic string, partition int) (api.PartitionDetail, error)
	// TransferLeader has another in-sync replica lead; "": whichever is best.
	TransferLeader(ctx context.Context, topic string, partition int, to meta.NodeID) error
	// ElectLeader gives a partition a leader, unclean also one that is not in
	// sync.
	ElectLeader(ctx context.Context, topic string, partition int, to meta.NodeID, unclean bool) error
	// MovePartition starts to move the replicas to other nodes. A dry run changes nothing.
	MovePartition(ctx context.Context, topic string, partition int, target []meta.NodeID, dryRun bool) error
	CancelMove(ctx context.Context, topic string, partition int) error
	// PlanBalance changes nothing.
	PlanBalance() api.Balance
	StartBalance(ctx context.Context, req api.StartBalance) (api.Balance, error)
}

// Repairer handles damaged copies of partitions.
type Repairer interface {
	// Copies lists the copies of a partition on the nodes.
	Copies(ctx context.Context, topic string, partition int) (*api.Repair, error)
	// DiscardCopy deletes a copy that a node has set aside.
	DiscardCopy(ctx context.Context, topic string, partition int, node meta.NodeID, name string) error
	// AcceptLoss ends that the health reports the loss of a partition's only replica.
	AcceptLoss(ctx context.Context, topic string, partition int, node meta.NodeID) error
}

// Agreement is the agreement on metadata.
type Agreement interface {
	Raft(ctx context.Context) api.Raft
	// TransferController has another voter lead it.
	TransferController(ctx context.Context) error
}

// Operator changes the cluster. All methods are required and safe for concurrent use.
type Operator struct {
	NodeOperator
	PartitionOperator
	Repairer
	Agreement
}

// Broker is the part of a node that this package uses for topics, channels, messages, except for
// publishing, and the cluster. All methods are required and safe for concurrent use.
type Broker struct {
	TopicReader
	TopicWriter
	ReplicaFitter
	ContentWriter
	Observer
	Positions
	Audit
	MessageOperator
	ClusterReader
}

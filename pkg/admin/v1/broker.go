package v1

import (
	"context"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/deadletter"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
)

// The methods of these interfaces are those of directory.Directory, directory.Trash and the types of
// pkg/operate, which document them.

// TopicReader knows the topics of the cluster.
type TopicReader interface {
	Topics() []*meta.Topic
	Topic(name string) (*meta.Topic, error)
}

// TopicWriter changes topics. Every call returns once this node has the change.
type TopicWriter interface {
	CreateTopic(ctx context.Context, name string, cfg meta.TopicConfig) (*meta.Topic, error)
	AlterTopic(ctx context.Context, name string, change func(*meta.TopicConfig)) error
	AddPartitions(ctx context.Context, name string, total int) error
	DeleteTopic(ctx context.Context, name string) error
	PauseTopic(ctx context.Context, name string, paused bool) error
}

// Plans says what changes of topics and channels would do.
type Plans interface {
	PlanTopic(ctx context.Context, name string, cfg meta.TopicConfig, channels ...meta.CreateChannel) (*meta.Topic, error)
	PlanAlter(ctx context.Context, name string, change func(*meta.TopicConfig)) (*meta.Topic, error)
	PlanPartitions(ctx context.Context, name string, total int) (*meta.Topic, error)
	PlanChannel(ctx context.Context, c meta.Command) (*meta.Topic, error)
	PlanRestore(ctx context.Context, c meta.RestoreTopic) (*meta.Topic, error)
	Decidable() error // why the metadata cannot be changed
	MessageLimit(ctx context.Context) (bytes int, node meta.NodeID)
}

// ReplicaFitter changes how many replicas there are.
type ReplicaFitter interface {
	FitReplicas(ctx context.Context, topic string) (waiting int, err error)
}

// Trash is the topics that were deleted and can be restored.
type Trash interface {
	Deleted() []*meta.Deleted
	Restore(ctx context.Context, c meta.RestoreTopic) (*meta.Topic, error)
	Purge(ctx context.Context, name string, in meta.Incarnation) error
}

// Upgrades is the feature level of the cluster.
type Upgrades interface {
	Upgrade() api.Upgrade
	Finalize(ctx context.Context) (api.Upgrade, error)
}

// ContentWriter changes the contents of topics and channels.
type ContentWriter interface {
	EmptyTopic(ctx context.Context, name string) error
	DeleteChannel(ctx context.Context, topic, channel string) error
	EmptyChannel(ctx context.Context, topic, channel string) error
	PauseChannel(ctx context.Context, topic, channel string, paused bool) error
	SeekChannel(ctx context.Context, topic, channel string, to operate.SeekTo) error
}

// Policies is how channels treat messages that fail.
type Policies interface {
	CreateChannel(ctx context.Context, c meta.CreateChannel) error
	AlterChannel(ctx context.Context, c meta.AlterChannel) error
	ChannelDefaults() policy.Policy
	LettersOf(t *meta.Topic, channel string) string
	DeadLetters(ctx context.Context, topicFilter, channelFilter string) []api.DeadLetters
	RedriveOrPurge(ctx context.Context, a operate.DeadLetterAction) (deadletter.Processed, error)
}

// Observer reads messages and counts, and changes nothing.
type Observer interface {
	ClusterStats(ctx context.Context, topicFilter, channelFilter string, clients bool) []stats.Topic
	Peek(ctx context.Context, p operate.Peek) ([]operate.Peeked, error)
	Digest(ctx context.Context, topic string) ([]api.PartitionDigest, error)
}

// Audit returns cluster events and operators' changes.
type Audit interface {
	RecordAct(ctx context.Context, a meta.Act, f fate.Fate)
	Journal() meta.Journal
}

// Positions knows where channels were before operators moved them.
type Positions interface {
	PlanMove(ctx context.Context, topic, channel string, to *operate.SeekTo) ([]api.PartitionMove, error)
	ChannelHistory(topic, channel string) ([]*meta.Saved, error)
	UndoChannel(ctx context.Context, topic, channel string) (api.UndoneMove, error)
	RestoreChannel(ctx context.Context, topic, channel string, replace bool) (api.UndoneMove, error)
}

// MessageOperator handles single messages.
type MessageOperator interface {
	FinishMessage(ctx context.Context, topic, channel string, partition int, offset seq.Offset) (api.PeekState, error)
}

// ClusterReader returns the state of the cluster as known on this node.
type ClusterReader interface {
	Cluster() api.Cluster
	Unregistered(ctx context.Context) []api.UnregisteredNode
	ClusterHealth(ctx context.Context) health.Report
}

// NodeOperator changes nodes. What it starts continues automatically.
type NodeOperator interface {
	DescribeNode(ctx context.Context, id meta.NodeID) (api.NodeDetail, error)
	DrainNode(ctx context.Context, id meta.NodeID, req api.DrainNode) error
	UndrainNode(ctx context.Context, id meta.NodeID) error
	DecommissionNode(ctx context.Context, id meta.NodeID, force, dryRun bool) error
	RemoveNode(ctx context.Context, id meta.NodeID, loseDeleted, dryRun bool) error
}

// PartitionOperator handles leaders and replicas.
type PartitionOperator interface {
	DescribePartition(ctx context.Context, topic string, partition int) (api.PartitionDetail, error)
	TransferLeader(ctx context.Context, topic string, partition int, to meta.NodeID) error
	ElectLeader(ctx context.Context, topic string, partition int, to meta.NodeID, unclean bool) error
	MovePartition(ctx context.Context, topic string, partition int, target []meta.NodeID, dryRun bool) error
	CancelMove(ctx context.Context, topic string, partition int) error
	PlanBalance() api.Balance
	StartBalance(ctx context.Context, req api.StartBalance) (api.Balance, error)
}

// Repairer handles damaged copies of partitions.
type Repairer interface {
	Copies(ctx context.Context, topic string, partition int) (*api.Repair, error)
	DiscardCopy(ctx context.Context, topic string, partition int, node meta.NodeID, name string) error
	AcceptLoss(ctx context.Context, topic string, partition int, node meta.NodeID) error
}

// Agreement is the agreement on metadata.
type Agreement interface {
	Raft(ctx context.Context) api.Raft
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

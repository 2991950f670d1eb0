package broker

import (
	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/operate"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/stats"
	"github.com/brokerd/brokerd/pkg/topic"
)

// What callers of this package, who need not know which room something is of, call it.
type (
	// TopicStats is a stats.Topic.
	TopicStats = stats.Topic
	// PartitionStats is a stats.Partition.
	PartitionStats = stats.Partition
	// ChannelStats is a stats.Channel.
	ChannelStats = stats.Channel
	// ChannelPartitionStats is a stats.Place.
	ChannelPartitionStats = stats.Place
	// Spinning is a stats.Spinning.
	Spinning = stats.Spinning
	// ClientStats is a stats.Client.
	ClientStats = stats.Client
	// Health is a health.Report.
	Health = health.Report
	// HealthReason is a health.Reason.
	HealthReason = health.Reason
	// Receipt is a topic.Receipt.
	Receipt = topic.Receipt
	// LogStats is a host.LogStats.
	LogStats = host.LogStats
	// SetAside is a host.SetAside.
	SetAside = host.SetAside
	// Publish is a publish.Request.
	Publish = publish.Request
	// Subscribe is a consume.Subscribe.
	Subscribe = consume.Subscribe
	// Subscription is a consume.Subscription.
	Subscription = consume.Subscription
	// Client is a consume.Client.
	Client = consume.Client
	// Move is an operate.Move.
	Move = operate.Move
	// Undone is an operate.Undone.
	Undone = operate.Undone
	// UndoneMove is an operate.UndoneMove.
	UndoneMove = operate.UndoneMove
	// Policies is an operate.Policies.
	Policies = operate.Policies
	// SettleLetters is an operate.SettleLetters.
	SettleLetters = operate.SettleLetters
	// Deferrals is an operate.Deferrals.
	Deferrals = operate.Deferrals
	// ListDeferred is an operate.ListDeferred.
	ListDeferred = operate.ListDeferred
	// DeferredPlace is an operate.DeferredPlace.
	DeferredPlace = operate.DeferredPlace
	// DeferredMessage is an operate.DeferredMessage.
	DeferredMessage = operate.DeferredMessage
	// DeferredList is an operate.DeferredList.
	DeferredList = operate.DeferredList
	// Reschedule is an operate.Reschedule.
	Reschedule = operate.Reschedule
	// Rescheduled is an operate.Rescheduled.
	Rescheduled = operate.Rescheduled
	// Letters is an operate.Letters.
	Letters = operate.Letters
	// Balance is an operate.Balance.
	Balance = operate.Balance
	// ClusterInfo is an operate.ClusterInfo.
	ClusterInfo = operate.ClusterInfo
	// CopyStats is an operate.CopyStats.
	CopyStats = operate.CopyStats
	// FollowerStats is an operate.FollowerStats.
	FollowerStats = operate.FollowerStats
	// LeaderMove is an operate.LeaderMove.
	LeaderMove = operate.LeaderMove
	// LiveCopy is an operate.LiveCopy.
	LiveCopy = operate.LiveCopy
	// NodeCopies is an operate.NodeCopies.
	NodeCopies = operate.NodeCopies
	// NodeDetail is an operate.NodeDetail.
	NodeDetail = operate.NodeDetail
	// NodeInfo is an operate.NodeInfo.
	NodeInfo = operate.NodeInfo
	// NodeLoad is an operate.NodeLoad.
	NodeLoad = operate.NodeLoad
	// NodePartition is an operate.NodePartition.
	NodePartition = operate.NodePartition
	// PartitionDetail is an operate.PartitionDetail.
	PartitionDetail = operate.PartitionDetail
	// PartitionDigest is an operate.PartitionDigest.
	PartitionDigest = operate.PartitionDigest
	// Peek is an operate.Peek.
	Peek = operate.Peek
	// PeekState is an operate.PeekState.
	PeekState = operate.PeekState
	// Peeked is an operate.Peeked.
	Peeked = operate.Peeked
	// Progress is an operate.Progress.
	Progress = operate.Progress
	// RaftInfo is an operate.RaftInfo.
	RaftInfo = operate.RaftInfo
	// RaftMember is an operate.RaftMember.
	RaftMember = operate.RaftMember
	// RaftStats is an operate.RaftStats.
	RaftStats = operate.RaftStats
	// ReplicaLag is an operate.ReplicaLag.
	ReplicaLag = operate.ReplicaLag
	// SeekTo is an operate.SeekTo.
	SeekTo = operate.SeekTo
	// Trouble is an operate.Trouble.
	Trouble = operate.Trouble
	// Outlook is an operate.Outlook.
	Outlook = operate.Outlook
)

// Constants of the rooms that callers need.
const (
	AnyPartition  = host.AnyPartition
	DefaultLease  = host.DefaultLease
	TrashFor      = host.TrashFor
	PeekDeferred  = operate.PeekDeferred
	PeekInFlight  = operate.PeekInFlight
	ReasonUnclean = operate.ReasonUnclean
)

// NewOutlook returns the Outlook of the node self.
func NewOutlook(self meta.NodeID, of operate.Opening) *Outlook { return operate.NewOutlook(self, of) }

// DeferralsOf returns the deferred messages of the channels of a node's cluster.
func DeferralsOf(b *Broker) Deferrals { return operate.DeferralsOf(b.Node) }

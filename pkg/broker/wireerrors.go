package broker

import (
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/consume"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/directory"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/quota"
	"github.com/brokerd/brokerd/pkg/topic"
)

// wireErrors are the errors that keep their meaning between nodes. A code that
// was given out is never given to another.
func wireErrors() forward.Table {
	return forward.Table{
		{Code: 1, Err: coord.ErrNotLeading},
		{Code: 2, Err: coord.ErrMoving},
		{Code: 3, Err: coord.ErrNotWritable},
		{Code: 4, Err: coord.ErrUnknownOutcome},
		{Code: 5, Err: coord.ErrTooBig},
		{Code: 6, Err: coord.ErrBusy},
		{Code: 10, Err: meta.ErrTopicNotFound},
		{Code: 11, Err: meta.ErrExists},
		{Code: 12, Err: meta.ErrChannelNotFound},
		{Code: 12, Err: topic.ErrChannelNotFound},
		{Code: 13, Err: meta.ErrPartitionNotFound},
		{Code: 14, Err: meta.ErrInvalidConfig},
		{Code: 15, Err: publish.ErrPartitionNeeded},
		{Code: 16, Err: directory.ErrInvalidTopic},
		{Code: 17, Err: directory.ErrInvalidChannel},
		{Code: 18, Err: host.ErrMessageTooBig},
		{Code: 19, Err: host.ErrBusy},
		{Code: 20, Err: host.ErrDiskFull},
		{Code: 21, Err: host.ErrExiting},
		{Code: 22, Err: consume.ErrTooManyConsumers},
		// 23 was given out once.
		{Code: 24, Err: channel.ErrNotInFlight},
		{Code: 25, Err: topic.ErrNotLeased},
		{Code: 26, Err: commitlog.ErrNoSpace},
		{Code: 27, Err: forward.ErrNoSuchCall},
		{Code: 28, Err: consume.ErrSubscriptionGone},
		{Code: 29, Err: host.ErrNoLeader},
		{Code: 30, Err: raftstore.ErrNotLeader},
		{Code: 31, Err: raftstore.ErrLastVoter},
		{Code: 32, Err: raftstore.ErrNotVoter},
		{Code: 33, Err: meta.ErrNodeNotFound},
		{Code: 34, Err: meta.ErrNodeInUse},
		{Code: 35, Err: topic.ErrFinNotStored},
		{Code: 36, Err: commitlog.ErrNoFiles},
		{Code: 37, Err: host.ErrNoWindow},
		{Code: 38, Err: quota.ErrFull},
	}
}

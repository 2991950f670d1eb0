package broker

import (
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
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
		{Code: 10, Err: ErrTopicNotFound},
		{Code: 11, Err: ErrTopicExists},
		{Code: 12, Err: ErrChannelNotFound},
		{Code: 12, Err: topic.ErrChannelNotFound},
		{Code: 13, Err: ErrPartitionNotFound},
		{Code: 14, Err: ErrInvalidConfig},
		{Code: 15, Err: ErrPartitionNeeded},
		{Code: 16, Err: ErrInvalidTopic},
		{Code: 17, Err: ErrInvalidChannel},
		{Code: 18, Err: ErrMessageTooBig},
		{Code: 19, Err: ErrBusy},
		{Code: 20, Err: ErrDiskFull},
		{Code: 21, Err: ErrExiting},
		{Code: 22, Err: ErrTooManyConsumers},
		// 23 was given out once.
		{Code: 24, Err: channel.ErrNotInFlight},
		{Code: 25, Err: topic.ErrNotLeased},
		{Code: 26, Err: commitlog.ErrNoSpace},
		{Code: 27, Err: forward.ErrNoSuchCall},
		{Code: 28, Err: errSubscriptionGone},
		{Code: 29, Err: ErrNoLeader},
		{Code: 30, Err: raftstore.ErrNotLeader},
		{Code: 31, Err: raftstore.ErrLastVoter},
		{Code: 32, Err: raftstore.ErrNotVoter},
		{Code: 33, Err: meta.ErrNodeNotFound},
		{Code: 34, Err: meta.ErrNodeInUse},
		{Code: 35, Err: topic.ErrFinNotStored},
		{Code: 36, Err: commitlog.ErrNoFiles},
		{Code: 37, Err: ErrNoWindow},
		{Code: 38, Err: quota.ErrFull},
	}
}

// toRemote returns err as another node can be told of it.
func toRemote(err error) error {
	if err == nil {
		return nil
	}
	return wireErrors().ToRemote(err)
}

// fromRemote returns what another node meant by err.
func fromRemote(err error) error { return wireErrors().FromRemote(err) }

// errSubscriptionGone refuses what is said of a relayed subscription that its
// leader does not have.
var errSubscriptionGone = fate.Refuse("subscription ended")

// calls returns how this node asks others.
func (o *Options) calls() forward.Caller {
	return forward.Caller{Remote: o.Remote, Errors: wireErrors()}
}

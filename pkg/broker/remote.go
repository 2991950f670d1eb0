package broker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/topic"
)

// errNoSuchCall refuses what this version does not know.
var errNoSuchCall = fate.Refuse("unknown cluster call")

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
		{Code: 27, Err: errNoSuchCall},
		{Code: 28, Err: errSubscriptionGone},
		{Code: 29, Err: ErrNoLeader},
		{Code: 30, Err: raftstore.ErrNotLeader},
		{Code: 31, Err: raftstore.ErrLastVoter},
		{Code: 32, Err: raftstore.ErrNotVoter},
		{Code: 33, Err: meta.ErrNodeNotFound},
		{Code: 34, Err: meta.ErrNodeInUse},
		{Code: 35, Err: topic.ErrFinNotStored},
		{Code: 36, Err: commitlog.ErrNoFiles},
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

// errAlone refuses what only a cluster can do.
var errAlone = fate.Refuse("no other node")

// errSubscriptionGone refuses what is said of a relayed subscription that its
// leader does not have.
var errSubscriptionGone = fate.Refuse("subscription ended")

// asker asks other nodes, and gives their errors the meaning that they had
// there.
type asker struct{ remote forward.Remote } // nil: this node is alone

// call asks another node and waits.
func (a asker) call(ctx context.Context, node meta.NodeID, kind uint8, payload [][]byte) ([]byte, error) {
	if a.remote == nil {
		return nil, errAlone
	}
	reply, err := a.remote.Call(ctx, node, kind, payload)
	if err != nil {
		return nil, fromRemote(err)
	}
	return reply, nil
}

// operate asks another node for a named operation. args and answer are JSON; a
// nil answer is not looked at.
func (a asker) operate(ctx context.Context, node meta.NodeID, op string, args, answer any) error {
	payload, err := forward.EncodeOperate(op, args)
	if err != nil {
		return fate.Mark(err, fate.Refused)
	}
	reply, err := a.call(ctx, node, forward.KindOperate, payload)
	if err != nil || answer == nil {
		return err
	}
	if err := json.Unmarshal(reply, answer); err != nil {
		return fmt.Errorf("decode response of node %q to %q: %w", node, op, err)
	}
	return nil
}

// settleAt has another node follow the metadata up to an index with what it
// leads of a topic, and waits.
func (a asker) settleAt(ctx context.Context, node meta.NodeID, topic string, index uint64) error {
	_, err := a.call(ctx, node, forward.KindSettle, forward.EncodeSettle(forward.Settle{Topic: topic, Index: index}))
	return err
}

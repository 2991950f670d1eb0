package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/topic"
)

// opHandover is the operation by which a leader hands a partition over.
const opHandover = "handover"

// ops returns what other nodes may ask this one on behalf of an operator.
func (o *desk) ops() map[string]func(context.Context, json.RawMessage) (any, error) {
	return map[string]func(context.Context, json.RawMessage) (any, error){
		askStats.name:              askStats.handler(o),
		askFollowers.name:          askFollowers.handler(o),
		askExtent.name:             askExtent.handler(o),
		askDigest.name:             askDigest.handler(o),
		askPeek.name:               askPeek.handler(o),
		askEmpty.name:              askEmpty.handler(o),
		askSeek.name:               askSeek.handler(o),
		askHealth.name:             askHealth.handler(o),
		askRaft.name:               askRaft.handler(o),
		askTroubles.name:           askTroubles.handler(o),
		askRemove.name:             askRemove.handler(o),
		askTransferController.name: askTransferController.handler(o),
	}
}

// send asks another node for an operation. answer, unless it is nil, gets what
// that one said.
func (o *desk) send(ctx context.Context, node meta.NodeID, op string, args, answer any) error {
	err := asker{o.d.o.Remote}.operate(ctx, node, op, args, answer)
	if _, unreachable := errors.AsType[*peer.UnreachableError](err); unreachable {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// ledPart returns a partition that this node leads, or coord.ErrNotLeading.
func (o *desk) ledPart(name string, i int) (*topic.Partition, error) {
	h := o.d.lookup(name)
	if h == nil {
		return nil, ErrTopicNotFound
	}
	if lp := h.leds(i); lp != nil {
		return lp.part, nil
	}
	return nil, fmt.Errorf("%s/%d: %w", name, i, coord.ErrNotLeading)
}

// log returns this node's copy of partition i, or nil.
func (h *hostedTopic) log(i int) *commitlog.Log {
	if hp := h.at(i); hp != nil {
		return hp.replica.Log()
	}
	return nil
}

// followersHere returns how far the followers of a partition are, if this node
// leads it.
func (o *desk) followersHere(a partitionAt) (all []FollowerStats, led bool) {
	h := o.d.lookup(a.Topic)
	if h == nil {
		return nil, false
	}
	return nil, h.leds(a.Partition) != nil
}

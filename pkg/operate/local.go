package operate

import (
	"errors"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Register adds the operations that other nodes may call on behalf of an operator.
func (o *Node) Register(all forward.Operations) {
	askStats.register(all, o)
	askFollowers.register(all, o)
	askCopy.register(all, o)
	askDigest.register(all, o)
	askPeek.register(all, o)
	askEmpty.register(all, o)
	askChange.register(all, o)
	askHealth.register(all, o)
	askFlow.register(all, o)
	askFinish.register(all, o)
	askPlace.register(all, o)
	askReturn.register(all, o)
	askRaft.register(all, o)
	askTroubles.register(all, o)
	askCopies.register(all, o)
	askRepair.register(all, o)
	askLetters.register(all, o)
	askDeferred.register(all, o)
	askReschedule.register(all, o)
	askTrace.register(all, o)
	askLimit.register(all, o)
	askSettings.register(all, o)
	askLogLevel.register(all, o)
	askApplied.register(all, o)
	askAdmit.register(all, o)
	askUnreached.register(all, o)
}

// reached adds failure.Unreachable to an error of another node if the node could not be asked.
func reached(err error) error {
	if _, unreachable := errors.AsType[*peer.UnreachableError](err); unreachable {
		return fmt.Errorf("%w: %w", failure.Unreachable, err)
	}
	return err
}

// ledPart returns a partition that this node leads, or failure.NotLeading.
func (o *Node) ledPart(name string, i int) (*topic.Partition, error) {
	h := o.host.Lookup(name)
	if h == nil {
		return nil, failure.TopicNotFound
	}
	if lp := h.Led(i); lp != nil {
		return lp.Part, nil
	}
	return nil, fmt.Errorf("%s/%d: %w", name, i, failure.NotLeading)
}

// channelAt is a channel in a partition of its topic.
type channelAt struct {
	Topic     string `json:"topic"`
	Channel   string `json:"channel"`
	Partition int    `json:"partition"`
}

// here returns the partition, which this node must lead, and the channel, which must be there.
func (a channelAt) here(o *Node) (*topic.Partition, *topic.Channel, error) {
	part, err := o.ledPart(a.Topic, a.Partition)
	if err != nil {
		return nil, nil, err
	}
	c := part.Channel(a.Channel)
	if c == nil {
		return nil, nil, failure.ChannelNotFound
	}
	return part, c, nil
}

// followersHere returns the progress of a partition's followers, if this node leads it.
func (o *Node) followersHere(a partitionAt) (all []api.Copy, led bool) {
	h := o.host.Lookup(a.Topic)
	if h == nil {
		return nil, false
	}
	lp := h.Led(a.Partition)
	if lp == nil {
		return nil, false
	}
	now := time.Now()
	for _, f := range lp.Term.Followers() {
		behind := time.Duration(-1) // it was never level
		switch {
		case f.Lag == 0 && f.Connected:
			behind = 0
		case !f.Since.IsZero():
			behind = max(0, now.Sub(f.Since))
		}
		all = append(all, api.Copy{
			Node: string(f.Node), Connected: f.Connected, State: f.State, Acked: uint64(f.Acked), Lag: f.Lag, LagBytes: f.LagBytes,
			BytesPerSecond: f.BytesPerSecond, BehindFor: api.Duration(behind), BehindForMS: api.Milliseconds(behind),
		})
	}
	return all, true
}

// Follower is the progress of a follower of a partition that this node leads.
type Follower struct {
	Topic     string
	Partition int
	api.Copy
}

// Followers yields the followers of the partitions that this node leads.
func (o *Operator) Followers(yield func(Follower) bool) {
	for _, h := range o.node.host.Topics.Hosted() {
		for _, lp := range h.AllLed() {
			all, _ := o.node.followersHere(partitionAt{h.Name, lp.Index})
			for i := range all {
				if !yield(Follower{h.Name, lp.Index, all[i]}) {
					return
				}
			}
		}
	}
}

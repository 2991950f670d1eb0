package consume

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/host"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/relay"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// Sources are the sources of a subscription. The value is immutable.
type Sources struct {
	local  []*localSource
	Relays []*relay.Relay
}

// localSource is a consumer of a partition that this node leads.
type localSource struct {
	*topic.Consumer
	part *topic.Partition
	gone atomic.Bool // it must leave
	// collected means that what its client has was added to what is carried. The subscription's mutex guards it.
	collected bool
}

// InFlight returns how many messages the consumer has not answered.
func (s *Sources) InFlight() int {
	n := s.localInFlight()
	if len(s.Relays) > 0 {
		now := time.Now()
		for _, r := range s.Relays {
			n += r.Count(now)
		}
	}
	return n
}

// localInFlight is InFlight for local sources.
func (s *Sources) localInFlight() int {
	n := 0
	for _, k := range s.local {
		n += k.InFlight()
	}
	return n
}

// company reports whether the client has messages in flight other than those of one of its consumers. It takes no
// lock.
func (s *Sources) company(of *topic.Consumer) bool {
	n := int64(s.localInFlight() - of.InFlight())
	for _, r := range s.Relays {
		n += r.Has()
	}
	return n > 0
}

// reserved returns the number of the source that has an isolated message for the client, or whose isolated message
// the client has; -1: there is none. Until the message is answered, the client gets no other.
func (s *Sources) reserved() int {
	for i, k := range s.local {
		if k.Reserved() && !k.gone.Load() {
			return i
		}
	}
	for i, r := range s.Relays {
		if r.Reserved() {
			return len(s.local) + i
		}
	}
	return -1
}

// others returns the number of sources besides the relays, for allot: all local sources count as
// one.
func (s *Sources) others() int { return min(len(s.local), 1) }

// Live returns how many sources have not ended.
func (s *Sources) Live() int {
	n := 0
	for _, k := range s.local {
		if !k.gone.Load() {
			n++
		}
	}
	for _, r := range s.Relays {
		if !r.Gone() {
			n++
		}
	}
	return n
}

// takes reports whether one of the sources is a consumer of a partition.
func (s *Sources) takes(part *topic.Partition) bool {
	return slices.ContainsFunc(s.local, func(k *localSource) bool { return k.part == part })
}

// lives reports whether a consumer of a partition on this node has not ended.
func (s *Sources) lives(partition int) bool {
	return slices.ContainsFunc(s.local, func(k *localSource) bool { return k.Partition() == partition && !k.gone.Load() })
}

// moving reports whether the leadership of a partition on this node is being transferred.
func (s *Sources) moving() bool {
	return slices.ContainsFunc(s.local, func(k *localSource) bool { return k.Moved() })
}

// covers reports whether a live source takes from a partition.
func (s *Sources) covers(partition int) bool {
	for _, k := range s.local {
		if k.Partition() == partition && !k.gone.Load() {
			return true
		}
	}
	for _, r := range s.Relays {
		if r.Serves(partition) && !r.Gone() {
			return true
		}
	}
	return false
}

// take takes from a source by its number.
func (s *Sources) take(i int, now time.Time, max int, emit func(*topic.Delivery) error) (int, error) {
	if i < len(s.local) {
		return s.local[i].Take(now, max, emit)
	}
	return s.Relays[i-len(s.local)].Take(now, max, emit)
}

// of returns the source of a message: a consumer, or a relay, or neither.
func (s *Sources) of(id seq.MessageID) (*topic.Consumer, *relay.Relay) {
	p := id.Partition()
	if len(s.local) > p && s.local[p].Partition() == p {
		return s.local[p].Consumer, nil
	}
	for _, k := range s.local {
		if k.Partition() == p {
			return k.Consumer, nil
		}
	}
	for _, r := range s.Relays {
		if r.Serves(p) {
			return nil, r
		}
	}
	return nil, nil
}

// undoDeliveries undoes deliveries from local partitions of messages that reached no client, as reported
// by unseen.
func (s *Sources) undoDeliveries(unseen func(seq.MessageID) bool) {
	for _, k := range s.local {
		k.UndoDeliveries(func(o seq.Offset) bool { return unseen(seq.NewMessageID(k.Partition(), o)) })
	}
}

// inFlight returns the messages of local partitions that the client has not answered.
func (s *Sources) inFlight(now time.Time) (ids []seq.MessageID) {
	for _, k := range s.local {
		for _, f := range k.Flights(now) {
			ids = append(ids, seq.NewMessageID(k.Partition(), f.Name))
		}
	}
	return ids
}

// counts returns the sums over the local partitions.
func (s *Sources) counts() topic.ConsumerCounts {
	var sum topic.ConsumerCounts
	for _, k := range s.local {
		sum.Add(k.Counts())
	}
	return sum
}

// endStrays makes relays release partitions that their nodes no longer lead, and ends relays without a
// partition. t is the metadata of the topic, and in the incarnation that the relays are for. A node
// reports itself when it leads none of the requested partitions, unless it hangs or is down, or no
// request waits for its answer.
//
// A relay of an ordered channel also ends with the epoch of a partition: it may hold messages of the earlier term that
// are delivered to other consumers first now.
func (s *Sources) endStrays(t *meta.Topic, in meta.Incarnation, ordered bool) {
	if t == nil || t.Incarnation != in {
		return
	}
	for _, r := range s.Relays {
		if ordered && !ofEpochs(r, t) || !r.Loses(func(i int) bool { return t.Partitions[i].Leader != r.Node && t.Partitions[i].Leader != "" }) {
			r.End(host.ErrLedElsewhere)
		}
	}
}

// ofEpochs reports whether a relay was created in the current epochs of its partitions.
func ofEpochs(r *relay.Relay, t *meta.Topic) bool {
	for i := range t.Partitions {
		if r.Serves(i) && r.Epochs[i] != t.Partitions[i].Epoch {
			return false
		}
	}
	return true
}

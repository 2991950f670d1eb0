package broker

import (
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/relay"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// sources are where a subscription takes from. They are not changed.
type sources struct {
	local  []*localSource
	relays []*relay.Relay
}

// localSource is a consumer of a partition that this node leads.
type localSource struct {
	*topic.Consumer
	part *topic.Partition
	gone atomic.Bool // it was told to go
}

// inFlight returns how many messages the consumer has not answered.
func (s *sources) inFlight() int {
	n := s.localInFlight()
	if len(s.relays) > 0 {
		now := time.Now()
		for _, r := range s.relays {
			n += r.Count(now)
		}
	}
	return n
}

// localInFlight is inFlight of what this node leads.
func (s *sources) localInFlight() int {
	n := 0
	for _, k := range s.local {
		n += k.InFlight()
	}
	return n
}

// others returns how many sources there are beside the relays, for allot: what this
// node leads counts as one.
func (s *sources) others() int { return min(len(s.local), 1) }

// live returns how many sources have not ended.
func (s *sources) live() int {
	n := 0
	for _, k := range s.local {
		if !k.gone.Load() {
			n++
		}
	}
	for _, r := range s.relays {
		if !r.Gone() {
			n++
		}
	}
	return n
}

// covers says whether a source that lives takes from a partition.
func (s *sources) covers(partition int) bool {
	for _, k := range s.local {
		if k.Partition() == partition && !k.gone.Load() {
			return true
		}
	}
	for _, r := range s.relays {
		if r.Serves(partition) && !r.Gone() {
			return true
		}
	}
	return false
}

// take takes from the source of a number.
func (s *sources) take(i int, now time.Time, max int, emit func(*topic.Delivery) error) (int, error) {
	if i < len(s.local) {
		return s.local[i].Take(now, max, emit)
	}
	return s.relays[i-len(s.local)].Take(now, max, emit)
}

// of returns where a message came from: a consumer, or a relay, or neither.
func (s *sources) of(id seq.MessageID) (*topic.Consumer, *relay.Relay) {
	p := id.Partition()
	if len(s.local) > p && s.local[p].Partition() == p {
		return s.local[p].Consumer, nil
	}
	for _, k := range s.local {
		if k.Partition() == p {
			return k.Consumer, nil
		}
	}
	for _, r := range s.relays {
		if r.Serves(p) {
			return nil, r
		}
	}
	return nil, nil
}

// giveBack undoes deliveries from partitions that this node leads: of messages that
// reached no client, as unseen says.
func (s *sources) giveBack(unseen func(seq.MessageID) bool) {
	for _, k := range s.local {
		k.GiveBack(func(o seq.Offset) bool { return unseen(seq.NewMessageID(k.Partition(), o)) })
	}
}

// counts returns the sums over the partitions that are led here.
func (s *sources) counts() topic.ConsumerCounts {
	var sum topic.ConsumerCounts
	for _, k := range s.local {
		sum.Add(k.Counts())
	}
	return sum
}

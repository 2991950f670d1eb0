package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/forward"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/topic"
)

// announced is what the leader of an epoch has told its successor to be in flight.
type announced struct {
	epoch    seq.Epoch // of the leader that told it
	inFlight topic.InFlight
}

// TakeInFlight records what is in flight in a partition on this node, which is about to be elected.
func (n *Host) TakeInFlight(m forward.InFlight) error {
	h := n.Lookup(m.Topic)
	if h == nil || h.Incarnation != m.Incarnation {
		return failure.TopicNotFound
	}
	hp := h.Held(m.Partition)
	if hp == nil {
		return fmt.Errorf("%s/%d: no replica on this node: %w", m.Topic, m.Partition, failure.NotLeading)
	}
	next := &announced{m.Epoch, topic.InFlight{All: m.Flights, At: time.Now()}}
	if was := hp.announced.Load(); m.Continues && was != nil && was.epoch == m.Epoch {
		next.inFlight = topic.InFlight{All: slices.Concat(was.inFlight.All, m.Flights), At: was.inFlight.At}
	}
	hp.announced.Store(next)
	return nil
}

// inherited returns what the leader of the epoch before has told this node to be in flight; nil:
// nothing. What was told long ago, by a leader that then stayed, does not count.
func (hp *Held) inherited(epoch seq.Epoch, now time.Time) *topic.InFlight {
	a := hp.announced.Swap(nil)
	if a == nil || a.epoch+1 != epoch || now.Sub(a.inFlight.At) > topic.ReturnAfter {
		return nil
	}
	return &a.inFlight
}

// isGone reports whether a node is down, or is about to stop: its clients are gone, or find another
// node.
func (rs *roles) isGone(node string) bool {
	x := rs.o.Meta.Node(meta.NodeID(node))
	return x == nil || x.State == meta.NodeDown || rs.leavers.has(x)
}

// tell tells the next leader what is in flight.
func (l *leaving) tell(ctx context.Context, c forward.Caller, flights []topic.Flights) error {
	m := forward.InFlight{Topic: l.h.Name, Incarnation: l.h.Incarnation, Partition: l.lp.Index, Epoch: l.lp.Term.Epoch()}
	send := func() error {
		_, err := c.Call(ctx, l.election.Leader, forward.KindInFlight, [][]byte{m.Append(nil)})
		m.Continues, m.Flights = true, nil
		return err
	}
	for room := forward.MaxInFlight; len(flights) > 0; {
		f := flights[0]
		n := min(len(f.Messages), room)
		part := f
		part.Messages = f.Messages[:n]
		m.Flights = append(m.Flights, part)
		if flights[0].Messages = f.Messages[n:]; len(flights[0].Messages) == 0 {
			flights = flights[1:]
		}
		if room -= n; room == 0 && len(flights) > 0 {
			if err := send(); err != nil {
				return err
			}
			room = forward.MaxInFlight
		}
	}
	return send()
}

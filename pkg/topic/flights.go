package topic

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/trace"
)

// ReturnAfter is how long the messages in flight of a subscription wait at a new leader for its
// consumer. The node of a subscription asks the new leader every few milliseconds as soon as it
// knows it, and disconnects a client that has had no leader for this long: its messages are then
// delivered to others.
const ReturnAfter = 10 * time.Second

// Identity names a subscription: its consumers at one leader after another have the same. The zero
// value is none: messages in flight do not follow such a consumer to the next leader.
type Identity struct {
	Node   string // that the client is connected to
	Number uint64 // of the subscription; no other one of that node has it, before or after a restart
}

// Flights are the messages of a channel that are in flight with a subscription when the leadership
// of the partition is transferred, as one leader tells the next.
type Flights struct {
	Channel  string
	Version  uint64 // of the channel
	Consumer Identity
	Messages []channel.Flight
}

// InFlight are the messages in flight that the previous leader of a partition has transferred.
type InFlight struct {
	All []Flights
	At  time.Time // when they were received
}

// Freeze refuses all answers with failure.Moving until Resume, and returns the messages in flight
// with subscriptions for which stays is true, by channel. Positions that are stored after it contain
// everything that was answered. Suspend precedes it. Channels that no other node has are left out.
func (p *Partition) Freeze(now time.Time, stays func(Identity) bool) (all []Flights) {
	for _, c := range p.Channels() {
		c.mu.Lock()
		c.frozen = true
		add := func(id uint64, by Identity) {
			if by == (Identity{}) || c.ephemeral || !stays(by) {
				return
			}
			if f := c.state.TakenBy(id).Flights(now); len(f) > 0 {
				all = append(all, Flights{Channel: c.name, Version: c.version, Consumer: by, Messages: f})
			}
		}
		for _, k := range c.consumers {
			add(k.id, k.o.Identity)
		}
		for by, a := range c.awaited {
			add(a.id, by)
		}
		c.mu.Unlock()
	}
	if len(all) > 0 {
		p.keeper.MarkDirty() // deliveries alone need not be stored, but the next leader must know these
	}
	return all
}

// movingLocked returns why answers are not accepted now, and may be later, here or at the next
// leader; nil if they are. The lock of the consumer's channel is held.
func (k *Consumer) movingLocked() error {
	if k.ch.frozen {
		return failure.Moving
	}
	return nil
}

// refuse refuses an answer without a lease. A term whose lease has not begun yet may accept it soon: its consumer
// is in flight from the previous leader. Otherwise the message becomes ready again: its client no longer holds
// it, and it is redelivered as soon as deliveries continue.
func (k *Consumer) refuse(o seq.Offset, now time.Time) error {
	c := k.ch
	c.mu.Lock()
	if c.frozen || !c.p.Gate.begun.Load() {
		c.mu.Unlock()
		return failure.Moving
	}
	err := c.state.Requeue(o, k.id, now, 0)
	k.recountLocked()
	c.mu.Unlock()
	if err == nil {
		traced(k, trace.Requeued, o, now)
		c.p.keeper.MarkDirty()
		c.p.Gate.messageLeft()
		c.wakeFor(1)
	}
	return failure.NotLeased
}

// awaited is a consumer of the previous leader whose messages are in flight here, and that has not
// joined yet.
type awaited struct {
	id    uint64    // of the consumer in the channel.State
	since time.Time // when the channel was opened
}

// inherit puts the messages of a channel that were in flight at the previous leader in flight. No
// other goroutine knows the channel's state yet.
func (f *InFlight) inherit(s *channel.State, name string, version uint64, now time.Time) map[Identity]awaited {
	if f == nil {
		return nil
	}
	var all map[Identity]awaited
	for _, x := range f.All {
		if x.Channel != name || x.Version != version {
			continue
		}
		id := uint64(len(all)) + 1
		if a, again := all[x.Consumer]; again {
			id = a.id
		}
		if s.TakenBy(id).Inherit(x.Messages, f.At) == 0 {
			continue
		}
		if all == nil {
			all = map[Identity]awaited{}
		}
		all[x.Consumer] = awaited{id, now}
	}
	return all
}

// adoptLocked gives a consumer that joins the messages that are in flight for its subscription. It
// undoes the delivery of those that its client does not hold, which no client has seen, and returns
// their number.
func (c *Channel) adoptLocked(k *Consumer) (undone int) {
	a, some := c.awaited[k.o.Identity]
	if !some {
		return 0
	}
	delete(c.awaited, k.o.Identity)
	k.id = a.id
	held := slices.Sorted(slices.Values(k.o.Holding))
	for _, o := range slices.Backward(c.state.TakenBy(k.id).Offsets()) {
		if _, has := slices.BinarySearch(held, o); !has {
			c.state.UndoTake(o)
			undone++
		}
	}
	k.recountLocked()
	if c.state.Isolation().Holds(k.id) {
		k.reserved.Store(true)
		c.holding = true
	}
	return undone
}

// Flights returns the messages that the consumer has not answered.
func (k *Consumer) Flights(now time.Time) []channel.Flight {
	k.ch.mu.Lock()
	defer k.ch.mu.Unlock()
	return k.ch.state.TakenBy(k.id).Flights(now)
}

// Has reports whether the consumer has a message in flight, by an offset that its client knows.
func (k *Consumer) Has(o seq.Offset) bool {
	k.ch.mu.Lock()
	defer k.ch.mu.Unlock()
	return k.ch.state.TakenBy(k.id).Has(o)
}

// Moved reports whether the consumer has ended, or will end, because the leadership is transferred:
// the next leader knows which messages it has in flight.
func (k *Consumer) Moved() bool {
	k.ch.mu.Lock()
	defer k.ch.mu.Unlock()
	return k.ch.frozen
}

// Return makes messages in flight ready that wait for the consumer of a subscription, because it will not join. The
// error says that the next leader may have to.
func (c *Channel) Return(by Identity) error {
	c.mu.Lock()
	moving := c.frozen
	c.mu.Unlock()
	if moving {
		return failure.Moving
	}
	c.returnAwaited(func(x Identity, _ awaited) bool { return x == by })
	return nil
}

// returnAwaited makes the messages in flight of awaited consumers ready that match.
func (c *Channel) returnAwaited(match func(Identity, awaited) bool) {
	var all []returned
	c.mu.Lock()
	for by, a := range c.awaited {
		if match(by, a) {
			delete(c.awaited, by)
			if c.closed == nil {
				all = append(all, c.returnLocked(a.id, func(t channel.Taken) int { return t.Lost(c.p.o.Now(), true) }))
			}
		}
	}
	arm := len(all) > 0 && c.armLocked()
	c.mu.Unlock()
	c.arm(arm)
	for _, r := range all {
		r.follow(c, "")
		c.p.keeper.MarkDirty()
		c.p.Gate.messageLeft()
		c.wakeFor(r.n)
	}
}

// returned are messages that are no longer in flight with a consumer, because it has left.
type returned struct {
	n           int
	noted, lost []seq.Offset // to be recorded on other replicas, and in traces
}

// returnLocked makes the messages in flight with a consumer ready, as end does. follow follows, without the lock.
func (c *Channel) returnLocked(id uint64, end func(channel.Taken) int) (r returned) {
	if c.bounded.Load() {
		for _, o := range c.state.TakenBy(id).Offsets() {
			r.noted = append(r.noted, c.state.View().Current(o))
		}
	}
	if c.p.trace.Load() != nil {
		r.lost = c.state.TakenBy(id).Offsets()
	}
	r.n = end(c.state.TakenBy(id))
	return r
}

// follow records what was returned by a client.
func (r returned) follow(c *Channel, client string) {
	for _, o := range r.noted {
		RetriesOf(c).storeAttempts(o)
	}
	if tr := c.p.trace.Load(); tr != nil {
		for _, o := range r.lost {
			tr.Step(&trace.Step{What: trace.Requeued, Offset: o, Channel: c.name, Client: client, At: c.p.o.Now()})
		}
	}
}

package topic

import (
	"time"

	"github.com/brokerd/brokerd/pkg/advance"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/reading"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/sharing"
	"github.com/brokerd/brokerd/pkg/trace"
)

// DisposeTimeout is how long a Disposer may hold a message. It is longer than a publish takes.
const DisposeTimeout = time.Minute

// Retries is a view of a channel: how it treats messages that are not finished.
type Retries struct{ c *Channel }

// RetriesOf returns the view of a channel.
func RetriesOf(c *Channel) Retries { return Retries{c} }

// SetPolicy changes how the channel treats unfinished messages, and its rate; nil: none. Unchanged
// values cost nothing.
func (x Retries) SetPolicy(p policy.Policy, limit *policy.Limit) {
	c := x.c
	c.limit.Store(limit)
	c.mu.Lock()
	same := c.state.Retries().Policy() == p
	c.mu.Unlock()
	if same {
		return
	}
	c.bounded.Store(p.MaxAttempts > 0)
	c.change(func(s *channel.State) { s.Operator().SetPolicy(p) })
}

// Policy returns the channel's current policy.
func (x Retries) Policy() policy.Policy {
	x.c.mu.Lock()
	defer x.c.mu.Unlock()
	return x.c.state.Retries().Policy()
}

// disposableLocked reports whether messages wait for a Disposer.
func (x Retries) disposableLocked() bool {
	c := x.c
	return c.state.Retries().Disposable() && c.p.o.Exhausted != nil
}

// expireLocked counts expired messages, each once, and returns those to be finished without
// delivery. If they are to be dead letters, a Disposer takes them instead.
func (x Retries) expireLocked(list []seq.Offset) []seq.Offset {
	c, r := x.c, x.c.state.Retries()
	for _, o := range list {
		if r.MarkExpired(o) {
			c.expired++
		}
	}
	if r.Policy().OnExpired != policy.DeadLetter || c.p.o.Exhausted == nil {
		return list
	}
	for _, o := range list {
		r.Expire(o)
	}
	return nil
}

// storeAttempts records on this node and on the other replicas how often an unfinished message has
// been delivered, because a checkpoint may come later than the next delivery. It does not wait.
func (x Retries) storeAttempts(o seq.Offset) {
	c := x.c
	c.mu.Lock()
	data := x.attemptsLocked(o)
	c.mu.Unlock()
	if data == nil || c.p.keeper.Append(data) != nil {
		return // a later checkpoint includes it
	}
	if c.p.keeper.Shared() {
		c.p.keeper.Advance(sharing.Change{Data: data, Done: func(error) {}})
	}
}

// attemptsLocked returns the record of a message's attempts; nil: there is none.
func (x Retries) attemptsLocked(o seq.Offset) []byte {
	c := x.c
	attempts := c.state.View().Attempts(o)
	if attempts == 0 || c.ephemeral {
		return nil
	}
	a := advance.Change{Channel: c.name, Version: c.version, Floor: min(c.state.View().Floor(), o), Offset: o, Moves: c.moves, Attempts: attempts}
	return a.Append(make([]byte, 0, advance.MaxHead+len(c.name)))
}

// requeueLocked is State.Requeue on a channel that bounds attempts: the message is not delivered
// again before its attempts are recorded, here and on the other replicas. The channel's lock is
// held, and released in between.
func (x Retries) requeueLocked(o seq.Offset, id uint64, now time.Time, delay time.Duration) error {
	c := x.c
	r := c.state.Retries()
	if c.ephemeral {
		return c.state.Requeue(o, id, now, delay)
	}
	if err := r.Park(o, id, now, FinTimeout); err != nil {
		return err
	}
	data := x.attemptsLocked(o)
	resume := func(error) {
		c.mu.Lock()
		r.Resume(o, now, c.p.o.Now(), delay)
		arm := c.armLocked()
		c.mu.Unlock()
		c.arm(arm)
		if delay <= 0 {
			c.wakeFor(1)
		}
	}
	c.mu.Unlock()
	err := c.p.keeper.Append(data)
	if err == nil && c.p.keeper.Shared() {
		c.p.keeper.Advance(sharing.Change{Data: data, Done: resume})
	} else {
		resume(err)
	}
	c.mu.Lock()
	return nil
}

// limitedBy records that the channel's rate limited a consumer to a number of messages, and reports
// whether ticks must be requested.
func (x Retries) limitedBy(k *Consumer, allowed int) (arm bool) {
	c := x.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limited = len(k.taken) >= allowed
	return c.limited && c.armLocked()
}

// waitsLocked reports whether ticks are needed, at whatever time.
func (x Retries) waitsLocked() bool {
	c := x.c
	return len(c.finishing.list) > 0 || c.limited || c.holding || x.disposableLocked()
}

// nameLocked returns the name of a present or former consumer; "" if it is no longer known.
func (x Retries) nameLocked(id uint64) string {
	c := x.c
	for _, k := range c.consumers {
		if k.id == id {
			return k.o.Name
		}
	}
	return c.departed.Name(id)
}

// Expired reports that the message's time to live has passed, whether or not it used up its attempts.
func (e *Exhausted) Expired() bool { return e.undeliverable.Expired }

// Exhausted is a message that used up its attempts, or has expired.
type Exhausted struct {
	Delivery
	Consumer      string // that had it last; "": unknown
	undeliverable channel.Undeliverable
	// Version distinguishes the channel from others; 0: it is ephemeral. Moves grows when an operator moves it.
	Version, Moves uint64
	Origin         seq.Offset // of a copy that replaces an earlier message: the Address.First; otherwise its own
}

// Disposer takes exhausted messages from a channel, and finishes or returns them. One goroutine uses it.
type Disposer struct {
	k     *Consumer
	taken []channel.Undeliverable
}

// NewDisposer returns a disposer of the channel's messages.
func (x Retries) NewDisposer() *Disposer {
	c := x.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	return &Disposer{k: &Consumer{ch: c, id: c.lastID, at: reading.New(c.p.o.Log)}}
}

// Take calls emit for up to max messages, with slices valid during the call. The disposer holds
// them for DisposeTimeout. An error of emit ends the call, and the remaining messages stay in
// the channel.
func (d *Disposer) Take(now time.Time, max int, emit func(*Exhausted) error) (n int, err error) {
	k, c := d.k, d.k.ch
	if !k.Leased(now) {
		return 0, nil
	}
	c.mu.Lock()
	d.taken = d.taken[:0]
	if c.closed == nil && !c.p.Gate.suspended.Load() && c.movers.n == 0 && RetriesOf(c).disposableLocked() {
		d.taken = c.state.Retries().Take(now, k.id, DisposeTimeout, max, d.taken)
	}
	names := make([]string, len(d.taken))
	for i, x := range d.taken {
		names[i] = RetriesOf(c).nameLocked(x.Consumer)
	}
	arm, moves := c.armLocked(), c.moves
	c.mu.Unlock()
	c.arm(arm)
	defer func() {
		k.message = record.Message{}
		k.at.Rest()
	}()
	for i, x := range d.taken {
		e := Exhausted{Consumer: names[i], undeliverable: x, Version: c.version, Moves: moves, Origin: x.Offset}
		if _, _, err = k.read(x.Delivery, &e.Delivery); err == nil {
			if k.message.Address != nil && k.message.Address.Moves {
				e.Origin = k.message.Address.First
			}
			err = emit(&e)
		}
		if err != nil {
			for _, x := range d.taken[i:] {
				d.keep(x)
			}
			return i, err
		}
	}
	return len(d.taken), nil
}

// Finish finishes a message: see Consumer.Finish. deadLettered tells whether it was moved to
// another topic or dropped.
func (d *Disposer) Finish(e *Exhausted, deadLettered bool) error {
	began := d.k.ch.p.o.Now()
	err := d.k.Finish(e.undeliverable.Offset)
	if err == nil {
		d.k.ch.Failed.Count(deadLettered)
		if deadLettered {
			traced(d.k, trace.DeadLettered, e.undeliverable.Offset, began)
		}
	}
	return err
}

// Keep returns a message to the channel unchanged.
func (d *Disposer) Keep(e *Exhausted) { d.keep(e.undeliverable) }

func (d *Disposer) keep(x channel.Undeliverable) {
	c := d.k.ch
	c.mu.Lock()
	c.state.Retries().Keep(x, d.k.id)
	arm := c.armLocked()
	c.mu.Unlock()
	c.p.Gate.messageLeft()
	c.arm(arm)
}

// Close returns all messages that were neither finished nor kept.
func (d *Disposer) Close() { d.k.Leave() }

package topic

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/processing"
	"github.com/brokerd/brokerd/pkg/reading"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/trace"
)

// takeMax is the maximum number of messages in one round of Take: it bounds how long a channel's lock is held.
const takeMax = 256

// takeRounds is the maximum number of rounds of one Take whose messages are all skipped.
const takeRounds = 64

// Consumer consumes a channel of one partition. Take must be called from one goroutine; the answers
// (Finish, Requeue, Touch) may come from others.
type Consumer struct {
	ch    *Channel
	id    uint64
	o     ConsumerOptions
	waits atomic.Bool // in ch.waiting; changed under ch.mu

	// idle is set when the consumer begins to wait and cleared when it takes something or passes.
	// Without waits, it was woken and has not looked yet.
	idle atomic.Bool

	reserved atomic.Bool // see Reserved

	inFlight  atomic.Int64
	delivered atomic.Uint64
	finished  atomic.Uint64
	requeued  atomic.Uint64
	timedOut  atomic.Uint64

	// Used by the goroutine that calls Take.
	at     reading.Place
	taken  []channel.Delivery
	undo   undo
	tags   channel.Tags // of the channel at the time of the take
	yields bool         // it is reserved: messages that it was woken for are for others
	// madeRoom means that consumers which had sorted too many messages for others can continue.
	madeRoom bool
	message  record.Message // the one read last, during a Take

	probe     processing.Probe     // measures how long messages are processed
	published processing.Published // empty if the channel keeps no times
}

// undo collects what a Take must report to the channel about messages that it did not deliver.
type undo struct {
	late    []lateMessage
	gone    []seq.Offset // finished without a consumer
	left    []seq.Offset // likewise, because the consumer's filter skipped them
	expired []seq.Offset // likewise, because they expired
	back    []seq.Offset // no longer in flight, to be taken again
	sort    []misplaced  // for other consumers
}

// returned adds messages that are to be taken again.
func (u *undo) returned(rest []channel.Delivery) {
	for _, t := range rest {
		u.back = append(u.back, t.Offset)
	}
}

type lateMessage struct {
	offset seq.Offset
	rest   time.Duration // rest of its delay
}

func (k *Consumer) wake() { k.o.Wake() }
func serve(k *Consumer) {
	if k.o.Serve == nil {
		k.wake()
		return
	}
	k.o.Serve()
}

// AtHand reports whether Take would find the next message of a strict channel without reading the
// log. Call it from the goroutine that may call Take.
func (k *Consumer) AtHand() bool { return k.at.Holds(k.ch.Floor()) }

// Waits reports that the last Take found nothing, and nothing has arrived for the consumer since. It
// is woken when something does.
func (k *Consumer) Waits() bool { return k.waits.Load() }

func (k *Consumer) unfinished(o seq.Offset) {
	if k.o.Unfinished != nil {
		k.o.Unfinished(o, failure.FinNotStored)
	}
}

// Owner returns the Owner of its options.
func (k *Consumer) Owner() any { return k.o.Owner }

// Partition returns the number of its partition.
func (k *Consumer) Partition() int { return k.ch.p.o.Index }

// InFlight returns how many messages the consumer has not answered.
func (k *Consumer) InFlight() int { return int(k.inFlight.Load()) }

func (k *Consumer) recountLocked() { k.inFlight.Store(int64(k.ch.state.TakenBy(k.id).Len())) }

// Take delivers up to max messages, now in flight: emit is called for each, with slices valid
// during the call. It returns their number. 0 means that there are none now, and Wake will be
// called when there may be; or that nothing may be delivered now: see Leased. An error of emit
// ends the call, and undelivered messages are ready again.
func (k *Consumer) Take(now time.Time, max int, emit func(*Delivery) error) (int, error) {
	max = min(max, takeMax)
	if !k.Leased(now) {
		k.at.Release()
		return 0, nil
	}
	for rounds := 0; ; rounds++ {
		if rounds >= takeRounds { // handle the client's commands meanwhile
			k.at.Rest()
			k.wake()
			return 0, nil
		}
		read, err := k.ch.keys.learn(k, max, takeRounds-rounds)
		if err != nil {
			k.at.Release()
			return 0, err
		}
		rounds += read
		arm, soon := k.take(now, max)
		k.ch.arm(arm)
		if k.madeRoom {
			k.madeRoom = false
			k.ch.wakeFor(everyone)
		}
		if k.yields {
			k.yields = false
			k.ch.wakeFor(1)
		}
		if len(k.taken) == 0 {
			if soon {
				k.at.Rest()
			} else {
				k.at.Release()
			}
			return 0, nil
		}
		sent, err := k.emitTaken(now, emit)
		k.message = record.Message{} // it would keep its batch in memory
		k.reportUndelivered(now)
		if errors.Is(err, failure.NoMemory) {
			k.at.Rest()
			k.wake() // it has waited, and retries
			k.delivered.Add(uint64(sent))
			return sent, nil
		}
		if sent > 0 || err != nil {
			k.at.Rest()
			k.delivered.Add(uint64(sent))
			return sent, err
		}
	}
}

// take asks the channel for messages. If there are none, the consumer is recorded as waiting before
// the end is read again, so that a commit in between wakes it. arm means that ticks must be
// requested. soon means that a message will follow soon, probably from the current batch: an
// ordered channel waits for the answer to one message, and would otherwise read its batch again for
// each.
func (k *Consumer) take(now time.Time, max int) (arm, soon bool) {
	c, limit := k.ch, k.ch.limit.Load()
	if limit != nil {
		wanted := max
		max = limit.Reserve(wanted, now)
		defer func() { limit.Return(max - len(k.taken)) }()
		if max < wanted {
			defer func() { arm = RetriesOf(c).limitedBy(k, max) || arm }()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k.taken = k.taken[:0]
	if c.closed != nil || c.Selection.Broken() != nil || c.p.Gate.suspended.Load() || c.p.arrivals.unsure.Load() || c.movers.n > 0 || c.state.View().Order().Some() && c.p.keeper.Apart() {
		return false, false // the caller that changes that wakes all consumers
	}
	k.tags = c.tags
	lot, full := k.tags.Of(k.o.Tag), c.state.Sorting().Full()
	k.taken = c.state.Sorting().Take(lot, now, k.id, k.o.Timeout, max, c.p.visibleEnd(), k.taken)
	if len(k.taken) == 0 && k.reservedLocked() {
		return c.armLocked(), false
	}
	if len(k.taken) == 0 {
		c.waiting.add(k)
		c.waiters.Store(c.waiting.len())
		k.idle.Store(true)
		k.taken = c.state.Sorting().Take(lot, now, k.id, k.o.Timeout, max, c.p.visibleEnd(), k.taken)
		if len(k.taken) == 0 {
			if c.keys.unreadLocked(c) { // there were too many to wait for, or messages arrived meanwhile
				c.waiting.remove(k)
				c.waiters.Store(c.waiting.len())
				k.wake()
			}
			return c.armLocked(), c.state.View().Order().Some() && c.state.View().InFlight() > 0
		}
	}
	if k.waits.Load() {
		c.waiting.remove(k)
		c.waiters.Store(c.waiting.len())
	}
	k.idle.Store(false)
	k.reserved.Store(k.taken[0].Alone)
	c.holding = c.holding || k.taken[0].Alone
	k.madeRoom = full && !c.state.Sorting().Full()
	k.recountLocked()
	if c.times != nil {
		k.published.Trim(c.state.TakenBy(k.id).Len(), c.state.TakenBy(k.id).Offsets)
	}
	return c.armLocked(), false
}

// Pass reports that the consumer has no capacity: it stops waiting, and a message that it was
// woken for goes to another. Its next Take may still find that message. Call it from Take's
// goroutine.
func (k *Consumer) Pass() {
	if !k.idle.Load() {
		return
	}
	c := k.ch
	c.mu.Lock()
	others := 0
	if !k.waits.Load() {
		others = 1
	}
	if len(c.tags) > 0 {
		others = everyone // it is not known for which of them the message is
	}
	c.waiting.remove(k)
	c.waiters.Store(c.waiting.len())
	k.idle.Store(false)
	c.mu.Unlock()
	if others > 0 {
		c.wakeFor(others)
	}
}

// sampled reports whether a message is delivered at a sample rate in percent (0: all) if drawn,
// from 0 to 99, is its random number.
func sampled(rate, drawn int) bool { return rate == 0 || drawn < rate }

// emitTaken reads the taken messages and emits them.
func (k *Consumer) emitTaken(now time.Time, emit func(*Delivery) error) (sent int, err error) {
	var d Delivery
	tracer := tracerOf(k)
	defer tracer.steps.Flush()
	for i, t := range k.taken {
		if len(k.tags) == 0 && !sampled(k.o.SampleRate, rand.IntN(100)) {
			k.undo.left = append(k.undo.left, t.Offset)
			continue
		}
		delay, ttl, err := k.read(t, &d)
		if err != nil {
			if err = k.unreadable(err, k.taken[i:]); err != nil {
				return sent, err
			}
			return sent, nil
		}
		if foreign := k.message.Address != nil && !k.ch.HasVersion(k.message.Address.Channel); foreign {
			k.undo.gone = append(k.undo.gone, t.Offset) // its channel was moved back, or lost its position
			continue
		}
		if ttl > 0 && expired(k, t.Offset, ttl, now) {
			k.undo.expired = append(k.undo.expired, t.Offset)
			continue
		}
		if rest := restOf(k.ch, k.at.Batch(), t, delay, now); rest > 0 {
			k.undo.late = append(k.undo.late, lateMessage{t.Offset, rest})
			continue
		}
		if !k.ch.Selection.All() && !selected(k, &d) {
			k.undo.left = append(k.undo.left, t.Offset)
			continue
		}
		if lot, ours := lotOf(k, &d); !ours {
			k.undo.sort = append(k.undo.sort, misplaced{t.Offset, lot})
			continue
		}
		if len(k.tags) > 0 && !sampled(k.o.SampleRate, rand.IntN(100)) || !k.o.Filter.Match(d.Header) {
			k.undo.left = append(k.undo.left, t.Offset)
			continue
		}
		if times := k.ch.times; times != nil { // before the client can have the message
			k.published.Add(t.Offset, now.Sub(times.Base)-k.ch.p.o.Ages.Age(ageOf(k.at.Batch()), now))
		}
		if sent == 0 { // likewise
			k.probe.Begin(t.Offset, now, int(t.Attempts), k.o.Timeout)
		}
		if err := emit(&d); err != nil {
			k.undo.returned(k.taken[i:])
			return sent, err
		}
		tracer.delivered(k, &d, delay)
		if sent++; sent == 1 && t.Attempts == 1 && delay == 0 {
			k.ch.p.o.Observer.ObserveDelivery(k.ch.p.o.Ages.Age(ageOf(k.at.Batch()), now))
		}
	}
	return sent, nil
}

// read fills d with a taken message and returns its publisher's delay and its time to live; 0: unlimited.
func (k *Consumer) read(t channel.Delivery, d *Delivery) (delay, ttl time.Duration, err error) {
	raw, err := k.at.Record(t.Offset)
	if err != nil {
		return 0, 0, err
	}
	m := &k.message
	if err := m.Decode(raw); err != nil {
		return 0, 0, err
	}
	d.ID, d.Timestamp, d.Attempts = seq.NewMessageID(k.ch.p.o.Index, t.Offset), k.at.Batch().Timestamp(), t.Attempts
	d.Alone = t.Alone
	d.TraceID, d.Header, d.Key, d.Body = m.TraceID, m.Header, m.Key, m.Body
	d.Position, d.RawSize = k.at.PositionOf(len(raw)), int32(commitlog.RecordBytes(len(raw)))
	if m.Address != nil {
		d.Timestamp = m.Address.Timestamp
	}
	return m.Delay, cmp.Or(m.TTL, time.Duration(k.ch.p.ttl.Load())), nil
}

// unreadable handles taken messages when the first of them cannot be read. Messages dropped by
// retention are gone. A damaged range is reported, and skipped unless other replicas hold it
// intact. Any other error ends the Take.
func (k *Consumer) unreadable(err error, rest []channel.Delivery) error {
	var below *commitlog.BelowStartError
	var damaged *commitlog.CorruptionError
	switch {
	case errors.As(err, &below):
		for _, t := range rest {
			if t.Offset < below.Start {
				k.undo.gone = append(k.undo.gone, t.Offset)
			} else {
				k.undo.back = append(k.undo.back, t.Offset)
			}
		}
		return nil
	case errors.As(err, &damaged):
		p := k.ch.p
		intact := intactElsewhere(p, damaged)
		if intact {
			p.Gate.Suspend()
		}
		p.o.Damaged(damaged)
		if intact {
			k.undo.returned(rest)
			return nil
		}
		for _, t := range rest {
			if t.Offset >= damaged.From && t.Offset < damaged.Next {
				k.undo.gone = append(k.undo.gone, t.Offset)
			} else {
				k.undo.back = append(k.undo.back, t.Offset)
			}
		}
		return nil
	}
	k.undo.returned(rest)
	return err
}

// reportUndelivered reports to the channel the messages that were taken and not delivered.
func (k *Consumer) reportUndelivered(now time.Time) {
	c, u := k.ch, &k.undo
	if len(u.late)+len(u.gone)+len(u.expired)+len(u.back)+len(u.sort)+len(u.left) == 0 {
		return
	}
	if tr := c.p.trace.Load(); tr != nil {
		tracedBack(k, tr, now)
	}
	if limit := c.limit.Load(); limit != nil {
		limit.Return(len(u.late) + len(u.gone) + len(u.left) + len(u.expired) + len(u.back) + len(u.sort))
	}
	var woken []*Consumer
	c.mu.Lock()
	if len(u.sort) > 0 {
		woken = sortLocked(k, u.sort)
		c.waiters.Store(c.waiting.len())
	}
	for _, m := range u.late {
		c.state.Defer(m.offset, now, m.rest)
	}
	for _, o := range u.gone {
		c.state.Drop(o)
	}
	for _, o := range slices.Backward(u.back) {
		c.state.UndoTake(o)
	}
	next, arm := leaveOutLocked(k, slices.Concat(RetriesOf(c).expireLocked(u.expired), u.left)), c.armLocked()
	k.recountLocked()
	c.mu.Unlock()
	c.arm(arm)
	c.p.keeper.MarkDirty()
	c.p.Gate.messageLeft()
	if n := len(u.back); n > 0 || c.keys.on.Load() {
		c.wakeFor(n + len(u.gone) + len(u.left) + len(u.expired)) // messages after them may be deliverable
	}
	next.send(c)
	for _, w := range woken {
		w.wake()
	}
	u.late, u.gone, u.expired, u.back, u.sort = u.late[:0], u.gone[:0], u.expired[:0], u.back[:0], u.sort[:0]
	u.left = u.left[:0]
}

// Leased reports whether taken messages may still be delivered at now: see Partition.Leased.
func (k *Consumer) Leased(now time.Time) bool { return k.ch.p.Gate.Leased(now) }

// Finish finishes a message. On a durable channel with strict or key order, the finish counts,
// and the next message (of the key) is delivered, once this node has recorded it and the other
// replicas, if any, have stored it. Until then the message can no longer be answered, does not
// time out, and blocks the next one; after FinTimeout it is ready again, and
// ConsumerOptions.Unfinished is called. If this node cannot record the finish, the message is
// redelivered; also by the next leader if the term ends first, unless that leader has stored
// it. An ephemeral channel stores nothing: there a finish counts at once in any order.
func (k *Consumer) Finish(o seq.Offset) error {
	c, now := k.ch, time.Now()
	if !c.p.Gate.Leased(now) {
		return k.refuse(o, now)
	}
	c.mu.Lock()
	if err := k.movingLocked(); err != nil {
		c.mu.Unlock()
		return err
	}
	o = c.state.View().Current(o)
	confirms := !c.ephemeral && c.state.View().Confirms(o)
	var err error
	switch {
	case c.closed != nil:
		err = failure.NotInFlight
	case confirms:
		err = c.state.Holds().Add(o, k.id)
	default:
		err = c.state.Finish(o, k.id)
	}
	more := err == nil && c.waiting.len() > 0 && c.state.View().Order().Some()
	var next finishes
	arm := false
	if err == nil {
		k.recountLocked()
		if confirms {
			c.finishing.add(o, k, c.p.o.Now())
			next = nextLocked(c)
			arm = c.armLocked()
		}
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	c.arm(arm)
	if confirms {
		next.send(c)
		return nil
	}
	k.finished.Add(1)
	k.processed(o, now)
	traced(k, trace.Finished, o, now)
	c.p.keeper.MarkDirty()
	c.p.Gate.messageLeft()
	if more {
		c.wakeFor(1)
	}
	return nil
}

// Requeue requeues a message, for delivery after a delay.
func (k *Consumer) Requeue(o seq.Offset, now time.Time, delay time.Duration) error {
	c := k.ch
	if !c.p.Gate.Leased(now) {
		return k.refuse(o, now)
	}
	again := c.state.Requeue
	if c.bounded.Load() {
		again = RetriesOf(c).requeueLocked
	}
	c.mu.Lock()
	if err := k.movingLocked(); err != nil {
		c.mu.Unlock()
		return err
	}
	o = c.state.View().Current(o)
	err := again(o, k.id, now, delay)
	k.probe.Drop(o)
	_, attempts := c.state.View().StateOf(o)
	far, long := c.p.mover.longLocked(c, o, now, delay)
	k.recountLocked()
	arm := c.armLocked()
	c.mu.Unlock()
	if err != nil {
		return err
	}
	k.requeued.Add(1)
	tracedRequeue(k, o, now, delay)
	c.Spins.Requeued(o, attempts, now)
	c.p.keeper.MarkDirty()
	c.p.Gate.messageLeft()
	c.arm(arm)
	if delay <= 0 || c.keys.on.Load() {
		c.wakeFor(1)
	}
	if long {
		c.p.mover.queue.Add(far)
	}
	return nil
}

// Touch restarts a message's timeout.
func (k *Consumer) Touch(o seq.Offset, now time.Time) error {
	c := k.ch
	if !c.p.Gate.Leased(now) {
		if !c.p.Gate.begun.Load() {
			return failure.Moving
		}
		return failure.NotLeased
	}
	c.mu.Lock()
	err := k.movingLocked()
	if err == nil {
		err = c.state.Touch(o, k.id, now, k.o.Timeout, k.o.MaxTimeout)
	}
	c.mu.Unlock()
	if err == nil {
		traced(k, trace.Touched, o, now)
	}
	return err
}

// ConsumerOptions describe a consumer of a channel.
type ConsumerOptions struct {
	// Timeout is how long a message may stay in flight.
	Timeout time.Duration
	// MaxTimeout bounds the time in flight, from the delivery on, to which Touch can extend the timeout.
	MaxTimeout time.Duration
	// SampleRate from 1 to 99 delivers that percentage of the messages and finishes the others; 0 delivers all.
	SampleRate int
	// Tag requests the messages with this tag, shared with other consumers of the tag; ""
	// requests messages without any requested tag.
	Tag string
	// Filter chooses messages; others are finished. nil: all.
	Filter *header.Filter
	// Wake signals that Take may return messages. It must not block.
	Wake func()
	// Serve replaces Wake if one message of a strict channel is next and the caller holds no lock:
	// it may call Take itself, instead of Take's goroutine. nil: Wake.
	Serve func()
	// Ended reports that the channel was closed, and why. It must not block.
	Ended func(reason error)
	// Company reports whether the client has messages in flight from other partitions, or may not have seen
	// that its connection ended; nil: it has none. It must take no lock.
	Company func() bool
	// Unfinished, if set, reports that an accepted Finish failed: other replicas have not
	// stored it within FinTimeout, and the message is ready again. It must not block.
	Unfinished func(o seq.Offset, err error)
	// Name identifies the consumer in output.
	Name string
	// Identity names the subscription: messages that the previous leader had in flight with it are
	// in flight with the consumer. Holding are those that its client has, by the offsets that it knows; the
	// delivery of the others is undone.
	Identity Identity
	Holding  []seq.Offset
	// Owner is an arbitrary value of the caller, returned by Channel.Consumers.
	Owner any
}

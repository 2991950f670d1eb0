package topic

import (
	"time"

	"github.com/brokerd/brokerd/internal/backlog"
	"github.com/brokerd/brokerd/pkg/channel"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/record"
	"github.com/brokerd/brokerd/pkg/seq"
)

// MovePolicy selects unfinished messages to append again for their channel, so that old
// segments can be deleted. Zero values select none.
type MovePolicy struct {
	// RequeueInMemory is the longest delay of a requeue that is kept only in memory and in the
	// channel's position.
	RequeueInMemory time.Duration
	// CarryAge and CarryBytes are the age of the log, and the distance to its end, from which on a
	// few unfinished messages may no longer keep it.
	CarryAge   time.Duration
	CarryBytes int64
	// Room reports whether the disk has space for messages without a waiting publisher. nil:
	// always.
	Room func([]Message) bool
}

const (
	// moveMessages and moveBytes bound what is appended at once; a larger message is appended
	// alone.
	moveMessages = 256
	moveBytes    = 1 << 20
)

// mover appends unfinished messages again in the background, addressed to their channel, to replace
// the originals: see Address.Moves. Messages that it cannot append stay as they are.
type mover struct {
	p     *Partition
	queue backlog.Of[moving]
}

// moving is a message to be appended again.
type moving struct {
	c      *Channel
	offset seq.Offset
	due    time.Time // when it is due; zero: at once
}

// begin initializes the mover of a partition.
func (v *mover) begin(p *Partition) {
	v.p, v.queue.Most, v.queue.Do = p, moveMessages, v.move
}

// move appends messages again.
func (v *mover) move(list []moving) {
	r := v.p.o.Log.NewReader()
	defer r.Release()
	var messages []Message
	now, bytes := v.p.o.Now(), 0
	for i := range list {
		m, ok := v.copyOf(r, &list[i], now)
		if !ok {
			continue
		}
		if bytes += m.Size(); bytes > moveBytes {
			v.append(messages)
			messages, bytes = nil, m.Size()
		}
		messages = append(messages, m)
	}
	v.append(messages)
}

// copyOf returns a copy of a message that its channel has not finished, if the message has no
// order.
func (v *mover) copyOf(r *commitlog.Reader, from *moving, now time.Time) (Message, bool) {
	rest := time.Duration(0)
	if !from.due.IsZero() {
		if rest = from.due.Sub(now); rest <= 0 {
			return Message{}, false // it is delivered in place
		}
	}
	var state channel.MessageState
	var attempts seq.Attempts
	ordered := false // its order may have changed by now
	from.c.Look(func(v channel.View) {
		state, _ = v.StateOf(from.offset)
		attempts = v.Attempts(from.offset)
		ordered = v.Confirms(from.offset)
	})
	if state == channel.Finished || ordered || !movable(from.c) || from.offset < v.p.o.Log.Start() {
		return Message{}, false
	}
	b, err := r.Batch(from.offset)
	if err != nil {
		return Message{}, false
	}
	records := b.Records(from.offset)
	_, raw, ok := records.Next()
	if !ok {
		return Message{}, false
	}
	to := record.Address{
		Channel: from.c.version, Partition: v.p.o.Index, Offset: from.offset,
		Timestamp: b.Timestamp(), Attempts: attempts, Moves: true,
	}
	m, _ := record.Decode(raw) // CopyTo refuses an invalid one
	if m.Address != nil && from.c.HasVersion(m.Address.Channel) {
		to.Channel = m.Address.Channel
	}
	return record.CopyTo(to, raw, rest, v.p.o.Ages.Age(livesSince(b, m.Address, m.TTL > 0), now), time.Duration(v.p.ttl.Load()))
}

// append appends messages and waits for the outcome.
func (v *mover) append(messages []Message) {
	if room := v.p.o.Moves.Room; len(messages) == 0 || room != nil && !room(messages) {
		return
	}
	settled := make(chan struct{})
	if err := v.p.Offer(Offered{Messages: messages, Done: func(Receipt) { close(settled) }}); err != nil {
		return // the log cannot be written now
	}
	<-settled
}

// longLocked returns the requeued message to move, and whether its delay is long enough for that.
// The channel's lock is held.
func (v *mover) longLocked(c *Channel, o seq.Offset, now time.Time, delay time.Duration) (moving, bool) {
	most := v.p.o.Moves.RequeueInMemory
	if delay <= most || most <= 0 || !movable(c) {
		return moving{}, false
	}
	due, deferred := c.state.View().Deferrals().Until(o)
	if backoff, parked := c.state.Retries().Parked(o); parked {
		due = now.Add(max(delay, backoff)) // until its attempts are stored elsewhere, it is deferred for FinTimeout
	}
	return moving{c, o, due}, deferred
}

// movable reports whether messages of a channel may be appended again, except those that have an
// order: see channel.View.Confirms. Nothing of an ephemeral channel is kept. While the topic is paused,
// appended messages are not delivered.
func movable(c *Channel) bool {
	return !c.ephemeral && c.version != 0 && c.p.pausedAt.Load() == notPaused
}

// carry appends again the few messages that alone keep old segments of the log.
func (v *mover) carry(r commitlog.Retention) {
	p := v.p
	if p.o.Moves.CarryAge <= 0 && p.o.Moves.CarryBytes <= 0 || !v.queue.Idle() {
		return
	}
	start, end := p.o.Log.Start(), r.OldEnd(p.o.Log, p.o.Moves.CarryAge, p.o.Moves.CarryBytes)
	for _, c := range p.Channels() {
		if c.Floor() >= end || !movable(c) {
			continue
		}
		c.mu.Lock()
		pending := c.state.View().Stragglers(start, end, p.o.Now())
		c.mu.Unlock()
		for _, m := range pending {
			v.queue.Add(moving{c, m.Offset, m.Due})
		}
	}
}

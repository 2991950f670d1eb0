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
	// RequeueInMemory is the longest delay of a requeue that is kept in memory and in the
	// channel's position alone.
	RequeueInMemory time.Duration
	// CarryAge and CarryBytes say how old the log is, and how long from there to its end,
	// where a few unfinished messages may keep it.
	CarryAge   time.Duration
	CarryBytes int64
	// Room reports whether the disk has space for messages without a waiting publisher. nil:
	// always.
	Room func([]Message) bool
}

const (
	// moveMessages and moveBytes are the most that is appended at once; a message that is
	// larger goes alone.
	moveMessages = 256
	moveBytes    = 1 << 20
)

// mover appends messages again in the background, addressed to the channel that has not
// finished them, in place of the originals: see Address.Moves. What it cannot append stays
// as it is.
type mover struct {
	p     *Partition
	queue backlog.Of[moving]
}

// moving is a message that is to be appended again.
type moving struct {
	c      *Channel
	offset seq.Offset
	due    time.Time // when it is to be delivered; zero: at once
}

// begin makes the mover that of a partition.
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

// copyOf returns a copy of a message that its channel has not finished, and that has no order.
func (v *mover) copyOf(r *commitlog.Reader, from *moving, now time.Time) (Message, bool) {
	state, attempts := from.c.stateOf(from.offset)
	rest := time.Duration(0)
	if !from.due.IsZero() {
		if rest = from.due.Sub(now); rest <= 0 {
			return Message{}, false // it is delivered where it is
		}
	}
	ordered := false // by now, perhaps
	Look(from.c, func(s *channel.State) { ordered = channel.Confirms(s, from.offset) })
	if state == channel.Finished || ordered || from.offset < v.p.o.Log.Start() {
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
	to := Address{
		Channel: from.c.version, Partition: v.p.o.Index, Offset: from.offset,
		Timestamp: b.Timestamp(), Attempts: min(attempts, maxAttempts), Moves: true,
	}
	return record.CopyTo(to, raw, rest, v.p.o.Ages.Age(ageOf(b), now), time.Duration(v.p.ttl.Load()))
}

// append appends messages and waits until it is known what became of them.
func (v *mover) append(messages []Message) {
	if room := v.p.o.Moves.Room; len(messages) == 0 || room != nil && !room(messages) {
		return
	}
	settled := make(chan struct{})
	if err := v.p.Offer(Offered{Messages: messages, Done: func(Receipt) { close(settled) }}); err != nil {
		return // it cannot be written to now
	}
	<-settled
}

// longLocked returns what there is to move of a message that was requeued, and whether it is
// deferred for so long. The channel's lock is held.
func (v *mover) longLocked(c *Channel, o seq.Offset, now time.Time, delay time.Duration) (moving, bool) {
	most := v.p.o.Moves.RequeueInMemory
	if delay <= most || most <= 0 || !movable(c) {
		return moving{}, false
	}
	due, deferred := channel.DeferredUntil(c.state, o)
	if least := now.Add(delay); due.Before(least) {
		due = least // how long is decided when its attempts are known elsewhere
	}
	return moving{c, o, due}, deferred
}

// movable reports whether messages of a channel may be appended again, but for those that have an
// order: see channel.Confirms. Of an ephemeral one nothing is kept. While the topic is paused,
// what is appended is not delivered.
func movable(c *Channel) bool {
	return !c.ephemeral && c.version != 0 && c.p.pausedAt.Load() == notPaused
}

// carry has the few messages appended again that alone keep old segments of the log.
func (v *mover) carry(r commitlog.Retention) {
	p := v.p
	if p.o.Moves.CarryAge <= 0 && p.o.Moves.CarryBytes <= 0 || !v.queue.Idle() {
		return
	}
	start, end := p.o.Log.Start(), commitlog.OldEnd(p.o.Log, r, p.o.Moves.CarryAge, p.o.Moves.CarryBytes)
	for _, c := range p.Channels() {
		if c.Floor() >= end || !movable(c) {
			continue
		}
		c.mu.Lock()
		pending := channel.Stragglers(c.state, start, end, p.o.Now())
		c.mu.Unlock()
		for _, m := range pending {
			v.queue.Add(moving{c, m.Offset, m.Due})
		}
	}
}

package channel

import (
	"github.com/brokerd/brokerd/pkg/keyorder"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/position"
	"github.com/brokerd/brokerd/pkg/seq"
)

// Operator is how operators change a State. Like the State it is not safe for concurrent use.
type Operator struct{ l *ledger }

// Operator returns the view.
func (s *State) Operator() Operator { return Operator{&s.ledger} }

// Finish finishes the message at an offset below the committed end, even if a consumer has it:
// the consumer's answer then fails with failure.NotInFlight. It returns the previous state. A held
// message is being finished by its consumer, and is not changed.
func (x Operator) Finish(o seq.Offset) (was MessageState) {
	l := x.l
	was, _ = View{l}.StateOf(o)
	if was == Finished {
		return was
	}
	if slot, ok := l.slotOf(o); ok {
		if l.t.slots[slot].place == held {
			return was
		}
		l.forget(slot)
	}
	l.recorder.add(o)
	l.done.Add(o)
	l.advanceFloor()
	l.revision++
	return was
}

// Skip finishes the messages of [from, end) that are not in flight, in time proportional to the
// range.
func (x Operator) Skip(from, end seq.Offset) {
	l := x.l
	drawRange(l, max(from, l.floor), end)
	for o := max(from, l.floor); o < end; o++ {
		if slot, ok := l.t.find(o); ok {
			if at := l.t.slots[slot].place; at == inFlight || at == held {
				continue
			}
			l.forget(slot)
		}
		l.recorder.add(o)
		l.done.Add(o)
	}
	l.advanceFloor()
	l.revision++
}

// Seek moves the channel to an offset, back or forward. The state of all messages is dropped: all
// messages from there on are delivered again, and answers to older deliveries fail with
// failure.NotInFlight.
func (x Operator) Seek(o seq.Offset) {
	l := x.l
	l.floor, l.cursor, l.done, l.t = o, o, seq.Set{}, nil
	l.recorder.Restart()
	if l.keyed != nil {
		l.keyed = newKeyed(o, keyorder.DefaultLimits())
	}
	l.ahead, l.inFlight, l.held, l.ready, l.deferred = 0, 0, 0, 0, 0
	l.retries.exhausted, l.retries.expired, l.retries.waiting = 0, 0, 0
	l.freshTurn = false
	l.revision++
}

// Return moves the channel back to its position before an operator moved it to target: everything
// below floor and in the ranges is finished. If the channel was moved forward, messages that
// consumers have finished since then at or above target stay finished.
func (x Operator) Return(floor seq.Offset, finished []position.Range, target seq.Offset) {
	l := x.l
	var since []position.Range
	if target > floor {
		if l.floor > target {
			since = append(since, position.Range{From: target, End: l.floor})
		}
		for from, end := range l.done.Ranges() {
			if from >= target {
				since = append(since, position.Range{From: from, End: end})
			}
		}
	}
	x.Seek(floor)
	for _, all := range [][]position.Range{finished, since} {
		for _, r := range all {
			if r.End > floor {
				l.done.AddRange(max(r.From, floor), r.End)
			}
		}
	}
	l.advanceFloor()
}

// Advance makes deferred messages ready, whatever delay their publishers chose, in the order of the
// log. It returns those that were deferred.
func (x Operator) Advance(offsets []seq.Offset) (done []seq.Offset) {
	l := x.l
	done = eachOf(l, offsets, func(slot int32) {
		l.collect(slot)
		l.t.slots[slot].delayed = advanced
	})
	promoteCollected(l)
	return done
}

// Cancel finishes deferred messages. It returns those that were deferred.
func (x Operator) Cancel(offsets []seq.Offset) (done []seq.Offset) {
	return eachOf(x.l, offsets, x.l.finish)
}

// eachOf calls f with the slots of the messages that are deferred, and returns their offsets.
func eachOf(l *ledger, offsets []seq.Offset, f func(slot int32)) (done []seq.Offset) {
	drawThese(l, offsets)
	for _, o := range offsets {
		slot, ok := l.slotOf(o)
		if !ok || l.t.slots[slot].place != deferred || l.t.slots[slot].delayed == byRecording {
			continue
		}
		f(slot)
		done = append(done, o)
		l.revision++
	}
	return done
}

// SetOrder changes the delivery order of the channel. Messages in flight stay with their consumers,
// deferred ones stay deferred. After a change to order by key, nothing is delivered until the keys
// of messages in flight are known, and nothing of a key with a message in flight; if there are too
// many keys to track, they are not waited for. It visits every tracked message.
func (x Operator) SetOrder(order policy.Order) {
	l := x.l
	l.ordered = order == policy.Strict
	if l.ordered || order == policy.ByKey {
		drawRange(l, 0, seq.MaxOffset+1)
	}
	if by := order == policy.ByKey; by == (l.keyed != nil) {
		return
	}
	mergeLots(l)
	var waits []int32
	fence := l.floor
	for slot := 1; l.t != nil && slot < len(l.t.slots); slot++ {
		switch m := &l.t.slots[slot]; m.place {
		case ready, keyBlocked:
			waits = append(waits, int32(slot)) //nolint:gosec // slots are numbered so
		case inFlight, held:
			fence = max(fence, m.offset+1)
		case free, deferred, exhausted, expired:
		}
	}
	for _, slot := range waits {
		l.collect(slot)
	}
	if l.keyed = nil; order == policy.ByKey {
		l.keyed = newKeyed(l.floor, keyorder.DefaultLimits())
		l.keyed.fence = fence
	}
	promoteCollected(l)
	l.revision++
}

// SetPolicy changes the effective policy. Messages that it permits to redeliver become ready,
// and those that it no longer permits are withheld, both in log order. It visits every tracked
// message if the number of attempts changes.
func (x Operator) SetPolicy(p policy.Policy) {
	l := x.l
	was := l.retries.policy
	l.retries.policy = p
	if was.MaxAttempts == p.MaxAttempts || l.t == nil {
		return
	}
	drawWhere(l, 0, seq.MaxOffset+1, func(d position.Deferral) bool { return p.Exhausts(d.Attempts.Charged()) })
	for slot := 1; slot < len(l.t.slots); slot++ {
		m := &l.t.slots[slot]
		held := m.place == exhausted
		waits := m.place == ready || m.place == deferred || m.place == keyBlocked
		if held && !p.Exhausts(m.attempts.Charged()) || waits && p.Exhausts(m.attempts.Charged()) {
			m.owner = -1 // its consumer is no longer known
			l.collect(int32(slot))
		}
	}
	promoteCollected(l)
	l.revision++
}

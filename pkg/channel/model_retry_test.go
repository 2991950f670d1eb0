package channel

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// backOff returns the delay of a message that failed.
func (m *model) backOff(o seq.Offset) time.Duration {
	return m.policy.Backoff.Delay(max(1, m.at[o].attempts.Charged()), uint64(o))
}

func (m *model) requeue(o seq.Offset, now time.Time, delay time.Duration) {
	if m.exhausted(o) || delay <= 0 && m.backOff(o) == 0 {
		m.promote(now)
	}
	m.again(o, now, delay)
}

func (m *model) again(o seq.Offset, now time.Time, delay time.Duration) {
	least := m.backOff(o)
	if m.exhausted(o) || delay <= 0 && least == 0 {
		m.enqueue(o)
		return
	}
	m.deferUntil(o, now.Add(max(delay, least)))
	if least > delay {
		m.at[o].backoff = true
		m.backedOff++
	}
}

// setPolicy moves the messages whose state differs under the new policy, in the
// order of the log.
func (m *model) setPolicy(p policy.Policy) {
	was := m.policy
	m.policy = p
	if was.MaxAttempts == p.MaxAttempts {
		return
	}
	var moved []seq.Offset
	for _, o := range slices.Sorted(maps.Keys(m.at)) {
		switch e := m.at[o]; e.state {
		case Ready, Deferred:
			if m.exhausted(o) {
				moved = append(moved, o)
			}
		case Exhausted:
			if !m.exhausted(o) && !slices.Contains(m.lapsed, o) {
				moved = append(moved, o)
			}
		case InFlight, Finished:
		}
	}
	gone := func(o seq.Offset) bool { return slices.Contains(moved, o) }
	m.unqueue(gone)
	m.spent = slices.DeleteFunc(m.spent, gone)
	m.fall(moved)
}

func (m *model) takeSpent(now time.Time, consumer uint64, timeout time.Duration, max int) (out []seq.Offset) {
	for len(out) < max {
		from := &m.lapsed
		if blocks := m.policy.OnExhausted == policy.Block; len(m.spent) > 0 && !blocks &&
			(len(m.lapsed) == 0 || m.at[m.spent[0]].since < m.at[m.lapsed[0]].since) {
			from = &m.spent
		}
		if len(*from) == 0 {
			break
		}
		o := (*from)[0]
		*from = (*from)[1:]
		m.clock++
		e := m.at[o]
		e.state, e.consumer, e.taken, e.due, e.held, e.known = InFlight, consumer, now, now.Add(timeout), false, nil
		e.order, e.delivery = m.clock, m.clock
		out = append(out, o)
		e.alone, e.joined = false, false
		m.join(consumer)
		m.isolation.disposers[consumer] = true
	}
	return out
}

// park makes the first step of a two-step requeue, or the second step for a waiting
// message.
func (p *pair) park(rng *rand.Rand, o seq.Offset, consumer uint64, delay time.Duration) error {
	for _, x := range slices.Sorted(maps.Keys(p.m.at)) {
		e := p.m.at[x]
		if e.state != Deferred || !e.parked || rng.IntN(3) == 0 {
			continue
		}
		delay *= time.Duration(rng.IntN(2))
		p.note("resume %d after %v", x, delay)
		p.s.Retries().Resume(x, e.taken.Add(-1), p.now, delay) // of an earlier park
		p.s.Retries().Resume(x, e.taken, p.now, delay)
		if delay <= 0 && p.m.backOff(x) == 0 {
			p.m.promote(p.now)
		}
		if e.state == Deferred {
			p.m.again(x, p.now, delay)
		}
		return nil
	}
	p.note("park %d by %d for %v", o, consumer, delay)
	want := p.m.owned(o, consumer)
	if want == nil {
		if p.m.exhausted(o) {
			p.m.enqueue(o)
		} else {
			p.m.deferUntil(o, p.now.Add(delay))
			p.m.at[o].parked, p.m.at[o].taken = true, p.now
		}
	}
	return same(p.s.Retries().Park(o, consumer, p.now, delay), want)
}

// takeSpent takes messages that have used up their attempts.
func (p *pair) takeSpent(rng *rand.Rand, consumer uint64, delay time.Duration) error {
	max := 1 + rng.IntN(3)
	p.note("take %d exhausted for %d until +%v", max, consumer, delay)
	var got []seq.Offset
	for _, x := range p.s.Retries().Take(p.now, consumer, delay+1, max, nil) {
		got = append(got, x.Offset)
	}
	if want := p.m.takeSpent(p.now, consumer, delay+1, max); !slices.Equal(got, want) {
		return fmt.Errorf("exhausted were %v, want %v", got, want)
	}
	return nil
}

// decide returns the outcome of a held message, or of one that is not held.
func (p *pair) decide(rng *rand.Rand) error {
	o := p.m.floor + seq.Offset(rng.IntN(30))
	var held []seq.Offset
	for _, f := range p.m.offsets(InFlight) {
		if p.m.at[f].held {
			held = append(held, f)
		}
	}
	if p.s.Holds().Len() != len(held) {
		return fmt.Errorf("%d held, want %d", p.s.Holds().Len(), len(held))
	}
	if len(held) > 0 && rng.IntN(4) > 0 {
		o = held[rng.IntN(len(held))]
	}
	meant := slices.Contains(held, o)
	if rng.IntN(3) == 0 {
		p.note("release %d", o)
		p.s.Holds().Release(o)
		if meant {
			p.m.enqueueFirst(o)
		}
		return nil
	}
	p.note("confirm %d", o)
	p.s.Holds().Confirm(o)
	if meant {
		p.m.at[o].state = Finished
		p.m.settle()
	}
	return nil
}

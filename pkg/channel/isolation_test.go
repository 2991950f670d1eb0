package channel

import (
	"fmt"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/seq"
)

// isolationModel is the isolation of a model.
type isolationModel struct {
	suspects  []seq.Offset // ready, and isolated
	lone      *entry       // isolated, and in flight when it was last looked at
	reserved  bool
	by        uint64
	since     time.Time
	others    bool
	disposers map[uint64]bool
}

func newIsolationModel() isolationModel { return isolationModel{disposers: map[uint64]bool{}} }

// suspect adds a ready message to those that are isolated, if it is suspected, and reports whether it did.
func (m *model) suspect(o seq.Offset) bool {
	a := m.at[o].attempts
	switch {
	case a.Shared() < 3:
		return false
	case a.Charged() > 0:
		m.isolation.suspects = slices.Insert(m.isolation.suspects, 0, o)
	default:
		m.isolation.suspects = append(m.isolation.suspects, o)
	}
	return true
}

// inFlightAlone returns the isolated message in flight; nil if there is none.
func (m *model) inFlightAlone() *entry {
	for _, o := range m.offsets(InFlight) {
		if e := m.at[o]; e.alone && !e.held {
			return e
		}
	}
	return nil
}

// lookAlone notices that an isolated message has left its consumer.
func (m *model) lookAlone() *entry {
	now := m.inFlightAlone()
	if m.isolation.lone != nil && now != m.isolation.lone {
		m.isolation.others = true
	}
	m.isolation.lone = now
	return now
}

// firstSuspect returns the isolated message that is next; nil if there is none.
func (m *model) firstSuspect(end seq.Offset) *seq.Offset {
	for _, o := range m.isolation.suspects {
		if o < end && (!m.ordered || o == m.floor && len(m.offsets(InFlight)) == 0) {
			return &o
		}
	}
	return nil
}

func (m *model) isolate(now time.Time, consumer uint64, end seq.Offset) (o *seq.Offset, only bool) {
	x := &m.isolation
	if lone := m.lookAlone(); lone != nil {
		return nil, lone.consumer == consumer
	}
	x.reserved = x.reserved && len(x.suspects) > 0
	mine, o := x.reserved && x.by == consumer, m.firstSuspect(end)
	switch {
	case o == nil || x.others && !m.ordered:
		x.reserved = x.reserved && !mine
		return nil, false
	case len(m.takenBy(consumer)) == 0:
		x.reserved = false
		return o, true
	case !x.reserved || !mine && now.Sub(x.since) > time.Second && len(m.takenBy(x.by)) == 0:
		x.reserved, x.by, x.since, mine = true, consumer, now, true
	}
	return nil, mine
}

func (m *model) isolatedWaits(end seq.Offset) bool {
	return m.lookAlone() == nil && m.firstSuspect(end) != nil
}

// join marks the messages of a consumer that has several.
func (m *model) join(consumer uint64) {
	if all := m.takenBy(consumer); len(all) > 1 {
		for _, o := range all {
			m.at[o].joined = true
		}
	}
}

// shareTimeouts counts time-outs of messages whose consumers have, or had, others.
func (m *model) shareTimeouts(out []seq.Offset) {
	for _, o := range out {
		if e := m.at[o]; (e.joined || len(m.takenBy(e.consumer)) > 1) && !m.isolation.disposers[e.consumer] {
			e.attempts = e.attempts.Share()
		}
	}
}

// lost ends the connection of a consumer.
func (m *model) lost(consumer uint64, now time.Time, company bool) (n int) {
	taken := m.takenBy(consumer)
	if len(taken) == 1 && !company {
		m.again(taken[0], now, 0)
		m.forget(consumer)
		return 1
	}
	for _, o := range taken {
		m.at[o].attempts = m.at[o].attempts.Share()
	}
	return m.disconnect(consumer)
}

func (m *model) forget(consumer uint64) {
	if m.lookAlone(); m.isolation.by == consumer {
		m.isolation.reserved = false
	}
	delete(m.isolation.disposers, consumer)
}

// checkIsolation returns an error if the isolated messages are not those that must be.
func checkIsolation(l *ledger) error {
	x, n := &l.t.isolation, 0
	for slot := x.list.head; slot != 0; slot = l.t.slots[slot].next {
		if m := &l.t.slots[slot]; m.place != ready || m.due > isolated {
			return fmt.Errorf("offset %d is isolated in place %d, due %d", m.offset, m.place, m.due)
		}
		n++
	}
	for slot := 1; slot < len(l.t.slots); slot++ {
		if m := &l.t.slots[slot]; m.place == ready && m.due > isolated && m.attempts.Shared() >= suspectFrom {
			return fmt.Errorf("offset %d has failed with others %d times, and is not isolated", m.offset, m.attempts.Shared())
		}
	}
	if n != x.n {
		return fmt.Errorf("%d isolated messages, counted %d", n, x.n)
	}
	if slot := x.slot; slot != 0 {
		if m := &l.t.slots[slot]; m.place != inFlight || l.t.consumers[m.owner].count > 1 && !l.t.consumers[m.owner].disposes {
			return fmt.Errorf("the isolated message %d is in place %d, with a consumer of %d", m.offset, m.place, l.t.consumers[m.owner].count)
		}
	}
	return nil
}

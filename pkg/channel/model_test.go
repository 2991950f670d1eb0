package channel

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// model is a State written to be obviously correct: every offset has an entry,
// and every method looks at all entries.
type model struct {
	floor, cursor seq.Offset
	at            map[seq.Offset]*entry // messages that are not simply fresh, from the floor on
	queue         []seq.Offset          // ready
	aside         []seq.Offset          // ready, and not visible when it was their turn
	clock         int                   // numbers the deadlines and deferrals
	ordered       bool
	paused        bool
	freshTurn     bool
	policy        policy.Policy
	isolation     isolationModel
	spent         []seq.Offset // have had all their attempts
	lapsed        []seq.Offset // have lived too long
	backedOff     uint64
}

type entry struct {
	state    MessageState
	attempts seq.Attempts
	consumer uint64
	due      time.Time
	taken    time.Time
	order    int // of its deadline or deferral
	delivery int
	since    int         // exhausted
	held     bool        // in flight without a consumer
	known    *seq.Offset // by which its consumer knows it; nil: where it stands
	backoff  bool        // deferred by the channel
	parked   bool        // deferred until its attempts are known elsewhere
	advanced bool
	alone    bool // in flight, isolated
	joined   bool // its consumer has had others since its delivery, or since it was touched last
}

func newModel(start seq.Offset, ordered bool) *model {
	return &model{floor: start, cursor: start, at: map[seq.Offset]*entry{}, ordered: ordered, isolation: newIsolationModel()}
}

// offsets lists the offsets in a state, earliest due first.
func (m *model) offsets(state MessageState) []seq.Offset {
	var out []seq.Offset
	for o, e := range m.at {
		if e.state == state {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b seq.Offset) int {
		x, y := m.at[a], m.at[b]
		return cmp.Or(x.due.Compare(y.due), cmp.Compare(x.order, y.order))
	})
	return out
}

func (m *model) promote(now time.Time) {
	m.fall(m.due(Deferred, now))
}

// due lists the offsets in a state that are due, earliest first.
func (m *model) due(state MessageState, now time.Time) []seq.Offset {
	return slices.DeleteFunc(m.offsets(state), func(o seq.Offset) bool { return m.at[o].held || m.at[o].due.After(now) })
}

// fall makes messages ready that become due together.
func (m *model) fall(due []seq.Offset) {
	for _, o := range slices.Sorted(slices.Values(due)) {
		m.enqueue(o)
	}
}

func (m *model) settle() {
	for m.at[m.floor] != nil && m.at[m.floor].state == Finished {
		delete(m.at, m.floor)
		m.floor++
	}
	m.cursor = max(m.cursor, m.floor)
}

// look sets ready messages aside that are not visible, until the first that is.
func (m *model) look(end seq.Offset) {
	if slices.ContainsFunc(m.aside, func(o seq.Offset) bool { return o < end }) {
		m.queue, m.aside = append(m.aside, m.queue...), nil
	}
	for len(m.queue) > 0 && m.queue[0] >= end {
		m.queue, m.aside = m.queue[1:], append(m.aside, m.queue[0])
	}
}

// unqueue removes messages from those that are ready.
func (m *model) unqueue(gone func(seq.Offset) bool) {
	m.queue, m.aside = slices.DeleteFunc(m.queue, gone), slices.DeleteFunc(m.aside, gone)
	m.isolation.suspects = slices.DeleteFunc(m.isolation.suspects, gone)
}

// next returns the message that a Take would return.
func (m *model) next(end seq.Offset) (o seq.Offset, repeated, ok bool) {
	for m.at[m.cursor] != nil && m.cursor < end && !m.ordered {
		m.cursor++
	}
	if m.ordered {
		e := m.at[m.floor]
		ok = len(m.offsets(InFlight)) == 0 && m.floor < end && (e == nil || e.state == Ready)
		return m.floor, e != nil, ok
	}
	fresh := m.cursor < end
	m.look(end)
	if len(m.queue) > 0 && (!fresh || !m.freshTurn || m.at[m.queue[0]].attempts == 0) {
		return m.queue[0], true, true
	}
	return m.cursor, false, fresh
}

func (m *model) take(now time.Time, consumer uint64, timeout time.Duration, max int, end seq.Offset) (out []Delivery) {
	if m.paused {
		return nil
	}
	if len(m.queue)+len(m.aside)+len(m.isolation.suspects) == 0 || m.ordered {
		m.promote(now)
	}
	alone, only := m.isolate(now, consumer, end)
	for range max {
		if only && alone == nil {
			break
		}
		o, repeated, ok := m.next(end)
		if m.ordered && slices.Contains(m.isolation.suspects, o) {
			ok = false
		}
		if !only && !ok && m.isolation.others {
			m.isolation.others = false
			alone, only = m.isolate(now, consumer, end)
		}
		if alone != nil {
			o, repeated, ok = *alone, true, true
		}
		if !ok {
			break
		}
		if repeated {
			m.unqueue(func(q seq.Offset) bool { return q == o })
		} else {
			m.at[o] = &entry{}
			m.cursor++
		}
		if !only && !m.ordered && (!repeated || m.at[o].attempts > 0) {
			m.freshTurn = repeated
		}
		m.clock++
		e := m.at[o]
		e.attempts = e.attempts.Delivered()
		e.alone, e.joined = only, false
		e.state, e.consumer, e.taken, e.due, e.held, e.known = InFlight, consumer, now, now.Add(timeout), false, nil
		e.order, e.delivery = m.clock, m.clock
		m.join(consumer)
		out = append(out, Delivery{o, e.attempts.Deliveries(), only})
		if only {
			m.isolation.lone = e
			break
		}
		m.isolation.others = false
	}
	return out
}

func (m *model) owned(o seq.Offset, consumer uint64) error {
	switch e := m.at[o]; {
	case e == nil || e.state != InFlight || e.held:
		return failure.NotInFlight
	case e.consumer != consumer:
		return errNotOwner
	}
	return nil
}

func (m *model) exhausted(o seq.Offset) bool {
	return m.policy.MaxAttempts > 0 && int(m.at[o].attempts.Charged()) >= m.policy.MaxAttempts
}

func (m *model) enqueue(o seq.Offset) {
	if m.exhausted(o) {
		m.exhaust(o)
		m.spent = append(m.spent, o)
		return
	}
	m.at[o].state = Ready
	if !m.suspect(o) {
		m.queue = append(m.queue, o)
	}
}

// untake subtracts a delivery, if there was one.
func (e *entry) untake() {
	e.attempts = e.attempts.Undelivered()
}

// lapse makes a message wait as expired.
func (m *model) lapse(o seq.Offset) {
	m.exhaust(o)
	m.lapsed = append(m.lapsed, o)
}

func (m *model) exhaust(o seq.Offset) {
	m.clock++
	m.at[o].state, m.at[o].since = Exhausted, m.clock
}

func (m *model) enqueueFirst(o seq.Offset) {
	m.enqueue(o)
	if n := len(m.queue); n > 0 && m.queue[n-1] == o {
		m.queue = slices.Insert(m.queue[:n-1], 0, o)
	}
}

func (m *model) deferUntil(o seq.Offset, at time.Time) {
	m.clock++
	e := m.at[o]
	e.state, e.due, e.order, e.backoff, e.parked, e.advanced = Deferred, at, m.clock, false, false, false
}

func (m *model) publishDeferred(o seq.Offset, at time.Time) {
	switch e := m.at[o]; {
	case e != nil && e.state == InFlight && !e.held:
		e.untake()
		m.deferUntil(o, at)
	case e == nil && o >= m.cursor:
		m.at[o] = &entry{}
		m.deferUntil(o, at)
	}
}

func (m *model) expire(now time.Time) []seq.Offset {
	out := m.due(InFlight, now)
	fallen := m.due(Deferred, now)
	m.shareTimeouts(out)
	for _, o := range out {
		if d := m.backOff(o); d > 0 && !m.exhausted(o) {
			m.deferUntil(o, now.Add(d))
			m.at[o].backoff = true
			m.backedOff++
		} else {
			fallen = append(fallen, o)
		}
	}
	m.fall(fallen)
	if len(out) == 0 {
		return nil
	}
	return out
}

func (m *model) disconnect(consumer uint64) (n int) {
	taken := m.takenBy(consumer)
	for _, o := range taken {
		m.enqueue(o)
	}
	m.forget(consumer)
	return len(taken)
}

func (m *model) takenBy(consumer uint64) []seq.Offset {
	taken := m.offsets(InFlight)
	slices.SortFunc(taken, func(a, b seq.Offset) int { return cmp.Compare(m.at[a].delivery, m.at[b].delivery) })
	return slices.DeleteFunc(taken, func(o seq.Offset) bool { return m.at[o].consumer != consumer || m.at[o].held })
}

func (m *model) advance(start seq.Offset) {
	if start <= m.floor {
		return
	}
	maps.DeleteFunc(m.at, func(o seq.Offset, _ *entry) bool { return o < start })
	m.unqueue(func(o seq.Offset) bool { return o < start })
	m.spent = slices.DeleteFunc(m.spent, func(o seq.Offset) bool { return o < start })
	m.lapsed = slices.DeleteFunc(m.lapsed, func(o seq.Offset) bool { return o < start })
	m.floor, m.cursor = start, max(m.cursor, start)
	m.settle()
}

func (m *model) seek(o seq.Offset) {
	*m = model{floor: o, cursor: o, at: map[seq.Offset]*entry{}, isolation: newIsolationModel(), ordered: m.ordered, paused: m.paused, clock: m.clock, policy: m.policy, backedOff: m.backedOff}
}

// restart discards all state that a checkpoint does not contain.
func (m *model) restart() {
	m.cursor, m.freshTurn, m.paused, m.queue, m.aside, m.spent, m.lapsed = m.floor, false, false, nil, nil, nil, nil
	m.policy, m.backedOff, m.isolation = policy.Policy{}, 0, newIsolationModel()
	var last []seq.Offset // an operator had them delivered
	for _, o := range slices.Sorted(maps.Keys(m.at)) {
		switch e := m.at[o]; {
		case e.held && e.state == InFlight:
			e.state = Finished
		case e.state == Deferred:
			m.clock++
			e.order, e.backoff, e.parked = m.clock, false, false
		case e.state == Finished:
		case e.attempts == 0 && e.advanced:
			last = append(last, o)
		case e.attempts == 0:
			delete(m.at, o)
		default:
			e.advanced = false // it is no longer needed
			m.enqueue(o)
		}
	}
	for _, o := range last {
		m.enqueue(o)
	}
	m.settle()
}

// check compares a state with the model, and the state with its invariants.
func (m *model) check(s *State, now time.Time, end, visible seq.Offset) error {
	if err := check(s); err != nil {
		return err
	}
	if s.View().Floor() != m.floor {
		return fmt.Errorf("floor %d, want %d", s.View().Floor(), m.floor)
	}
	flying, later := m.offsets(InFlight), m.offsets(Deferred)
	c := s.View().Counts(end)
	if int(c.InFlight) != len(flying) || int(c.Deferred) != len(later) {
		return fmt.Errorf("%+v, want %d in flight, %d deferred", c, len(flying), len(later))
	}
	backing := 0
	for _, o := range later {
		if m.at[o].backoff {
			backing++
		}
	}
	if int(c.Exhausted) != len(m.spent) || int(c.Expired) != len(m.lapsed) || int(c.BackingOff) != backing || c.BackedOff != m.backedOff {
		return fmt.Errorf("%+v, want %d exhausted, %d of %d waiting", c, len(m.spent), backing, m.backedOff)
	}
	first, ok := s.Retries().First()
	if ok != (len(m.spent) > 0) || ok && first != slices.Min(m.spent) {
		return fmt.Errorf("first exhausted %d %v, want of %v", first, ok, m.spent)
	}
	waiting := int64(0)
	for o := m.floor; o < end+50; o++ {
		state, attempts := Ready, uint16(0)
		if e := m.at[o]; e != nil {
			if state = e.state; state != Finished {
				attempts = e.attempts.Deliveries()
				if got := s.View().Attempts(o); got != e.attempts {
					return fmt.Errorf("offset %d: attempts %#x, want %#x", o, got, e.attempts)
				}
			}
		}
		if gotState, gotAttempts := s.View().StateOf(o); gotState != state || gotAttempts != attempts {
			return fmt.Errorf("offset %d: state %d, %d attempts, want %d, %d", o, gotState, gotAttempts, state, attempts)
		}
		if (state == Ready || state == Exhausted) && o < end {
			waiting++
		}
	}
	if c.Depth != waiting && m.floor <= end {
		return fmt.Errorf("depth %d, want %d", c.Depth, waiting)
	}
	at, ok := s.NextEvent()
	var want []time.Time
	flying = slices.DeleteFunc(flying, func(o seq.Offset) bool { return m.at[o].held })
	for _, list := range [][]seq.Offset{flying, later} {
		if len(list) > 0 {
			want = append(want, m.at[list[0]].due)
		}
	}
	far := s.ledger.t != nil && s.ledger.t.far.Len() > 0 // it may be for what becomes near
	if ok != (len(want) > 0) || ok && !at.Equal(slices.MinFunc(want, time.Time.Compare)) && (!far || at.After(slices.MinFunc(want, time.Time.Compare))) {
		return fmt.Errorf("next event %v %v, want %v", at, ok, want)
	}
	some := false
	if !m.paused {
		m.promote(now)
		_, _, some = m.next(visible)
		some = some || !m.ordered && m.isolatedWaits(visible)
	}
	if got := s.HasReady(now, visible); got != some {
		return fmt.Errorf("has ready: %v", got)
	}
	return nil
}

// check returns an error if one of the package's invariants is violated.
func check(s *State) error {
	l := &s.ledger
	if l.floor > l.cursor || l.done.Contains(l.floor) {
		return fmt.Errorf("floor %d, cursor %d, finished %v", l.floor, l.cursor, l.done.Contains(l.floor))
	}
	if l.t == nil {
		if l.ahead+l.inFlight+l.ready+l.deferred+int(l.retries.exhausted+l.retries.expired)+l.retries.waiting+blockedBy(l) != 0 || seq.Offset(l.done.Len()) < l.cursor-l.floor && l.cursor > l.floor {
			return errors.New("counts without messages")
		}
		return nil
	}
	if err := checkIsolation(l); err != nil {
		return err
	}
	if err := checkLots(l.t); err != nil {
		return err
	}
	count := map[place]int{}
	ahead, tracked := 0, uint64(0)
	for slot := 1; slot < len(l.t.slots); slot++ {
		m := &l.t.slots[slot]
		if m.place == free {
			continue
		}
		count[m.place]++
		if found, ok := l.t.index.get(m.offset); !ok || found != int32(slot) {
			return fmt.Errorf("offset %d is not in the index", m.offset)
		}
		if m.offset < l.floor || l.done.Contains(m.offset) {
			return fmt.Errorf("offset %d is tracked and finished", m.offset)
		}
		if m.offset >= l.cursor {
			ahead++
		} else {
			tracked++
		}
		if (m.event != 0) != (m.place == inFlight || m.place == deferred) {
			return fmt.Errorf("offset %d: event %d in place %d", m.offset, m.event, m.place)
		}
	}
	if ahead != l.ahead || l.t.index.used != int(tracked)+ahead {
		return fmt.Errorf("ahead %d, want %d; indexed %d, tracked %d", l.ahead, ahead, l.t.index.used, tracked)
	}
	if count[inFlight]+count[held] != l.inFlight || count[held] != l.held || count[ready] != l.ready || count[exhausted] != int(l.retries.exhausted) || count[expired] != int(l.retries.expired) || count[keyBlocked] != blockedBy(l) {
		return fmt.Errorf("counts %d %d %d, want %v", l.inFlight, l.ready, l.deferred, count)
	}
	below, err := checkFar(s, count[deferred])
	if err != nil {
		return err
	}
	tracked += below
	finished := uint64(0)
	for from, end := range l.done.Ranges() {
		finished += uint64(min(end, max(from, l.cursor)) - from)
	}
	if finished+tracked != uint64(l.cursor-l.floor) {
		return fmt.Errorf("%d finished and %d tracked between %d and %d", finished, tracked, l.floor, l.cursor)
	}
	return nil
}

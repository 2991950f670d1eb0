package channel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/keyorder"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// lanes is a channel that orders by key, with the expected state of every offset.
type lanes struct {
	s       *State
	rng     *rand.Rand
	now     time.Time
	end     seq.Offset
	keys    []string              // by offset; "": none
	flying  map[seq.Offset]uint64 // consumers
	held    map[seq.Offset]bool   // finished, and not confirmed
	done    map[seq.Offset]bool   // finished, or dropped
	stale   map[seq.Offset]bool   // in flight since before the channel ordered by key
	last    map[string]seq.Offset // the last message of a key that was finished first
	byKey   bool
	history []string
}

func newLanes(rng *rand.Rand, order policy.Order) *lanes {
	s := New(0, false)
	s.Operator().SetOrder(order)
	return &lanes{
		s: s, rng: rng, now: time.Unix(1000, 0), flying: map[seq.Offset]uint64{}, held: map[seq.Offset]bool{},
		done: map[seq.Offset]bool{}, stale: map[seq.Offset]bool{}, last: map[string]seq.Offset{}, byKey: order == policy.ByKey,
	}
}

func (l *lanes) note(format string, args ...any) {
	l.history = append(l.history, fmt.Sprintf(format, args...))
}

// first returns the first message of a key that is not finished; false: there is none.
func (l *lanes) first(key string) (seq.Offset, bool) {
	for o := range l.end {
		if l.keys[o] == key && !l.done[o] {
			return o, true
		}
	}
	return 0, false
}

// outOf reports whether a message of a key is in flight, or held.
func (l *lanes) outOf(key string) bool {
	for o := range l.end {
		if _, out := l.flying[o]; (out || l.held[o]) && l.keys[o] == key {
			return true
		}
	}
	return false
}

// learn passes keys to the State, like its shell.
func (l *lanes) learn(wanted int) {
	for {
		from, some := l.s.Keyed().Unknown(wanted, l.end)
		if !some {
			return
		}
		for o := from; o < min(from+3, l.end); o++ {
			l.s.Keyed().Learn(o, []byte(l.keys[o]))
		}
	}
}

func (l *lanes) take(max int, consumer uint64, timeout time.Duration) error {
	l.learn(max)
	before := map[string]bool{}
	for _, key := range l.keys {
		before[key] = l.outOf(key)
	}
	for _, d := range l.s.Take(l.now, consumer, timeout, max, l.end, nil) {
		l.note("%d gets %d of %q", consumer, d.Offset, l.keys[d.Offset])
		key := l.keys[d.Offset]
		if _, flying := l.flying[d.Offset]; flying || l.done[d.Offset] || l.held[d.Offset] {
			return fmt.Errorf("%d is delivered though it is with a consumer, or finished", d.Offset)
		}
		if first, _ := l.first(key); l.byKey && key != "" && (before[key] || d.Offset != first) {
			return fmt.Errorf("%d of key %s is delivered, others out: %v, first: %d", d.Offset, key, before[key], first)
		}
		before[key] = true
		l.flying[d.Offset] = consumer
		delete(l.stale, d.Offset)
	}
	return nil
}

// finished notes that a message counts as finished.
func (l *lanes) finished(o seq.Offset) error {
	key, stale := l.keys[o], l.stale[o]
	delete(l.flying, o)
	delete(l.held, o)
	delete(l.stale, o)
	l.done[o] = true
	if last, some := l.last[key]; l.byKey && key != "" && !stale && some && o < last {
		return fmt.Errorf("%d of key %s is finished after %d", o, key, last)
	}
	if !stale {
		l.last[key] = o
	}
	return nil
}

// any returns one of the messages, chosen by the seed.
func (l *lanes) any(of map[seq.Offset]bool) (seq.Offset, bool) {
	var all []seq.Offset
	for o := range of {
		all = append(all, o)
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return all[l.rng.IntN(len(all))], true
}

func (l *lanes) answer() error {
	flying := map[seq.Offset]bool{}
	for o := range l.flying {
		flying[o] = true
	}
	o, some := l.any(flying)
	if !some {
		return nil
	}
	consumer := l.flying[o]
	switch l.rng.IntN(8) {
	case 0:
		delay := time.Duration(l.rng.IntN(3)) * time.Minute
		l.note("requeue %d after %v", o, delay)
		delete(l.flying, o)
		delete(l.stale, o)
		return l.s.Requeue(o, consumer, l.now, delay)
	case 1:
		l.note("give back %d", o)
		delete(l.flying, o)
		delete(l.stale, o)
		l.s.UndoTake(o)
	case 2:
		l.note("defer %d", o)
		delete(l.flying, o)
		delete(l.stale, o)
		l.s.Defer(o, l.now, time.Minute)
	case 3:
		if l.byKey && l.s.View().Confirms(o) && l.rng.IntN(2) == 0 {
			l.note("leave out %d", o)
			delete(l.flying, o)
			l.held[o] = true
			return l.s.Holds().Skip(o, consumer)
		}
		l.note("drop %d", o)
		l.s.Drop(o)
		return l.finished(o)
	default:
		if l.byKey && l.keys[o] == "" && l.s.View().Confirms(o) && o < l.s.ledger.keyed.scanned {
			return fmt.Errorf("the finish of %d waits for others, and has no key", o)
		}
		if !l.s.View().Confirms(o) {
			if l.byKey && l.keys[o] != "" {
				return fmt.Errorf("the finish of %d waits for no replica, and has a key", o)
			}
			l.note("finish %d", o)
			return errors.Join(l.s.Finish(o, consumer), l.finished(o))
		}
		l.note("hold %d", o)
		delete(l.flying, o)
		l.held[o] = true
		return l.s.Holds().Add(o, consumer)
	}
	return nil
}

func (l *lanes) settle() error {
	o, some := l.any(l.held)
	switch {
	case !some:
	case l.rng.IntN(5) == 0:
		l.note("release %d", o)
		l.s.Holds().Release(o)
		delete(l.held, o)
		delete(l.stale, o)
	default:
		l.note("confirm %d", o)
		l.s.Holds().Confirm(o)
		return l.finished(o)
	}
	return nil
}

// steer makes random steps of operators and the log.
func (l *lanes) steer() error {
	switch l.rng.IntN(12) {
	case 0:
		o := seq.Offset(l.rng.IntN(int(l.end) + 1))
		l.note("seek %d", o)
		l.s.Operator().Seek(o)
		l.reset()
		for at := range l.end {
			l.done[at] = at < o
		}
	case 1:
		l.note("restart")
		p := l.s.View().Position(l.now, l.now.UnixNano())
		l.s = Restore(p, false, l.now, l.now.UnixNano())
		if l.byKey {
			l.s.Operator().SetOrder(policy.ByKey)
		}
		for o := range l.held {
			l.done[o] = true
		}
		done := l.done
		l.reset()
		l.done = done
	case 2:
		o := min(l.s.View().Floor()+seq.Offset(l.rng.IntN(3)), l.end)
		l.note("the log starts at %d", o)
		l.s.AdvanceTo(o)
		for at := range o {
			l.forget(at)
		}
	case 3:
		if l.end > 0 {
			o := seq.Offset(l.rng.IntN(int(l.end)))
			l.note("finish %d by hand", o)
			if l.s.Operator().Finish(o); !l.held[o] {
				l.forget(o)
			}
		}
	case 4:
		from := seq.Offset(l.rng.IntN(int(l.end) + 1))
		end := min(l.end, from+3)
		l.note("skip %d to %d", from, end)
		l.s.Operator().Skip(from, end)
		for o := from; o < end; o++ {
			if _, flying := l.flying[o]; !flying && !l.held[o] {
				l.forget(o)
			}
		}
	case 5:
		order := []policy.Order{policy.Unordered, policy.Strict, policy.ByKey}[l.rng.IntN(3)]
		l.note("order %v", order)
		l.s.Operator().SetOrder(order)
		if l.byKey = order == policy.ByKey; l.byKey {
			for o := range l.flying {
				l.stale[o] = true
			}
			for o := range l.held {
				l.stale[o] = true
			}
			clear(l.last)
		}
	case 6:
		consumer := uint64(1 + l.rng.IntN(3))
		l.note("%d leaves", consumer)
		l.s.TakenBy(consumer).Disconnect()
		for o, by := range l.flying {
			if by == consumer {
				delete(l.flying, o)
				delete(l.stale, o)
			}
		}
	case 7:
		l.s.Trim()
	}
	return nil
}

func (l *lanes) reset() {
	clear(l.flying)
	clear(l.held)
	clear(l.stale)
	clear(l.last)
	l.done = map[seq.Offset]bool{}
}

func (l *lanes) forget(o seq.Offset) {
	delete(l.flying, o)
	delete(l.held, o)
	delete(l.stale, o)
	l.done[o] = true
}

func (l *lanes) step() error {
	switch n := l.rng.IntN(20); {
	case n < 4:
		for range l.rng.IntN(6) {
			key := ""
			if n := l.rng.IntN(5); n > 0 {
				key = fmt.Sprint("k", n)
			}
			l.keys = append(l.keys, key)
			if l.end++; l.rng.IntN(8) == 0 {
				l.note("%d is published deferred", l.end-1)
				l.s.Defer(l.end-1, l.now, time.Minute)
			}
		}
	case n < 9:
		return l.take(1+l.rng.IntN(4), uint64(1+l.rng.IntN(3)), time.Duration(1+l.rng.IntN(5))*time.Minute)
	case n < 14:
		return l.answer()
	case n < 17:
		return l.settle()
	case n < 18:
		l.now = l.now.Add(time.Duration(l.rng.IntN(90)) * time.Second)
		l.s.Expire(l.now, func(_ uint64, o seq.Offset) {
			l.note("%d times out", o)
			delete(l.flying, o)
			delete(l.stale, o)
		})
	default:
		return l.steer()
	}
	return nil
}

// check checks that exactly the deliverable messages are ready.
func (l *lanes) check() error {
	if err := check(l.s); err != nil {
		return err
	}
	if !l.byKey {
		if n := blockedBy(&l.s.ledger); n != 0 {
			return fmt.Errorf("%d wait for keys though the channel does not order by key", n)
		}
		return nil
	}
	for slot := 1; l.s.ledger.t != nil && slot < len(l.s.ledger.t.slots); slot++ {
		m := &l.s.ledger.t.slots[slot]
		if m.place != ready && m.place != keyBlocked {
			continue
		}
		key := l.keys[m.offset]
		first, _ := l.first(key)
		may := m.offset < l.s.ledger.keyed.scanned && (key == "" || first == m.offset && !l.outOf(key))
		if l.s.ledger.keyed.scanned < l.s.ledger.keyed.fence {
			continue // not all that is out is known
		}
		if may != (m.place == ready) {
			return fmt.Errorf("%d of key %q: may go %v, in place %d; first %d, others out %v", m.offset, key, may, m.place, first, l.outOf(key))
		}
	}
	return nil
}

// drain finishes all remaining messages.
func (l *lanes) drain() error {
	for range 4 * (int(l.end) + 1) {
		if err := l.take(4, 9, time.Hour); err != nil {
			return err
		}
		l.now = l.now.Add(10 * time.Minute)
		l.s.Expire(l.now, func(_ uint64, o seq.Offset) { delete(l.flying, o) })
		for o, by := range l.flying {
			if l.s.View().Confirms(o) {
				if err := l.s.Holds().Add(o, by); err != nil {
					return err
				}
				l.s.Holds().Confirm(o)
			} else if err := l.s.Finish(o, by); err != nil {
				return err
			}
			if err := l.finished(o); err != nil {
				return err
			}
		}
		for o := range l.held {
			l.s.Holds().Confirm(o)
			l.forget(o)
		}
	}
	if l.s.View().Floor() != l.end {
		return fmt.Errorf("the channel stands at %d of %d", l.s.View().Floor(), l.end)
	}
	if l.s.ledger.keyed != nil && (l.s.ledger.keyed.lines.Len() != 0 || l.s.ledger.keyed.blocked != 0) {
		return fmt.Errorf("%d are remembered, %d wait", l.s.ledger.keyed.lines.Len(), l.s.ledger.keyed.blocked)
	}
	return nil
}

func TestMessagesOfAKeyAreDeliveredInTheOrderOfTheLog(t *testing.T) {
	rng := testrand.New(t)
	for history := range 60 {
		l := newLanes(rng, []policy.Order{policy.ByKey, policy.Unordered}[rng.IntN(5)/4])
		var err error
		for i := 0; i < 150 && err == nil; i++ {
			if err = l.step(); err == nil {
				err = l.check()
			}
		}
		if err == nil {
			err = l.drain()
		}
		if err != nil {
			t.Fatalf("history %d: %v\n%s", history, err, l.history)
		}
	}
}

// keyedState is a channel that orders by key, with known keys.
func keyedState(limits keyorder.Limits, keys ...string) *State {
	s := New(0, false)
	s.Operator().SetOrder(policy.ByKey)
	s.ledger.keyed.lines = keyorder.New(limits)
	learnAll(s, keys...)
	return s
}

func learnAll(s *State, keys ...string) {
	for {
		from, some := s.Keyed().Unknown(len(keys), seq.Offset(len(keys)))
		if !some {
			return
		}
		s.Keyed().Learn(from, []byte(keys[from]))
	}
}

func offsetsOf(list []Delivery) (all []seq.Offset) {
	for _, d := range list {
		all = append(all, d.Offset)
	}
	return all
}

func TestDelayedKeyDelaysNoOther(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, hold := range map[string]func(*State){
		"in flight":             func(*State) {},
		"requeued with a delay": func(s *State) { _ = s.Requeue(0, 1, now, time.Hour) },
		"deferred":              func(s *State) { s.Defer(0, now, time.Hour) },
		"held":                  func(s *State) { _ = s.Holds().Add(0, 1) },
		"exhausted": func(s *State) {
			s.Operator().SetPolicy(policy.Policy{MaxAttempts: 1, OnExhausted: policy.Block})
			_ = s.Requeue(0, 1, now, 0)
		},
	} {
		s := keyedState(keyorder.DefaultLimits(), "a", "a", "b", "", "a", "c")
		if got := offsetsOf(s.Take(now, 1, time.Hour, 1, 6, nil)); !slices.Equal(got, []seq.Offset{0}) {
			t.Fatalf("%s: first is %v", name, got)
		}
		hold(s)
		if got := offsetsOf(s.Take(now, 2, time.Hour, 9, 6, nil)); !slices.Equal(got, []seq.Offset{2, 3, 5}) {
			t.Errorf("%s: the others are %v", name, got)
		}
		if b, some := s.View().KeyBlock(); !some || b.Key != "a" || b.Offset != 0 || b.Waiting != 3 || b.Full {
			t.Errorf("%s: blocked by %+v, %v", name, b, some)
		}
	}
}

func TestLookAheadIsBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	keys := []string{"a", "a", "a", "b", "a", "c"}
	for name, limits := range map[string]keyorder.Limits{
		"messages": {Tracked: 3, Bytes: 1 << 20}, "bytes": {Tracked: 100, Bytes: 160 + 1 + 3*128},
	} {
		s := keyedState(limits, keys...)
		if got := offsetsOf(s.Take(now, 1, time.Hour, 9, 6, nil)); !slices.Equal(got, []seq.Offset{0}) || s.HasReady(now, 6) {
			t.Errorf("%s: at the limit %v, ready %v", name, got, s.HasReady(now, 6))
		}
		b, some := s.View().KeyBlock()
		if want := (KeyBlock{Key: "a", Offset: 0, State: InFlight, Waiting: 3, Tracked: 3, Full: true}); !some || b != want {
			t.Errorf("%s: %+v, %v", name, b, some)
		}
		if err := s.Finish(0, 1); err != nil {
			t.Fatal(err)
		}
		learnAll(s, keys...)
		if got := offsetsOf(s.Take(now, 1, time.Hour, 9, 6, nil)); !slices.Equal(got, []seq.Offset{1, 3}) {
			t.Errorf("%s: with one finished %v", name, got)
		}
	}
}

// When a channel begins to order by key, the keys of the messages in flight are unknown at
// first.
func TestInFlightMessageDelaysItsKeyWhenOrderBegins(t *testing.T) {
	now := time.Unix(1000, 0)
	keys := []string{"a", "b", "a", "c"}
	s := New(0, false)
	s.Take(now, 1, time.Hour, 3, 4, nil)
	s.UndoTake(0) // 1 and 2 stay
	s.Operator().SetOrder(policy.ByKey)
	if got := s.Take(now, 2, time.Hour, 9, 4, nil); len(got) > 0 || s.HasReady(now, 0) {
		t.Errorf("before the keys are known: %v", got)
	}
	s.Keyed().Learn(0, []byte("a"))
	if got := s.Take(now, 2, time.Hour, 9, 4, nil); len(got) > 0 {
		t.Errorf("before all keys of what is in flight are known: %v", got)
	}
	learnAll(s, keys...)
	if got := offsetsOf(s.Take(now, 2, time.Hour, 9, 4, nil)); !slices.Equal(got, []seq.Offset{3}) {
		t.Errorf("while 2 is in flight: %v", got)
	}
	if err := s.Finish(2, 1); err != nil {
		t.Fatal(err)
	}
	if got := offsetsOf(s.Take(now, 2, time.Hour, 9, 4, nil)); !slices.Equal(got, []seq.Offset{0}) {
		t.Errorf("once it is finished: %v", got)
	}
	s.Operator().SetOrder(policy.Unordered)
	if s.View().Order() != policy.Unordered || s.View().Confirms(0) {
		t.Error("it has an order still")
	}
}

func TestMessagesWithAKeyAreNoStragglers(t *testing.T) {
	now := time.Unix(1000, 0)
	keys := make([]string, 64)
	keys[0] = "a"
	s := keyedState(keyorder.DefaultLimits(), keys...)
	for _, d := range s.Take(now, 1, time.Hour, 64, 64, nil) {
		if d.Offset > 1 {
			if err := s.Finish(d.Offset, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := s.View().Stragglers(0, 64, now); len(got) != 1 || got[0].Offset != 1 {
		t.Errorf("stragglers are %+v", got)
	}
}

// Several messages of one key may be in flight when order begins: while one of them is held, returned
// messages wait for it.
func TestHeldMessageDelaysEarlierOnes(t *testing.T) {
	now := time.Unix(1000, 0)
	s := New(0, false)
	s.Take(now, 1, time.Hour, 3, 4, nil)
	s.Operator().SetOrder(policy.ByKey)
	learnAll(s, "a", "a", "a", "a")
	for _, o := range []seq.Offset{1, 2} {
		if err := s.Holds().Add(o, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Requeue(0, 1, now, 0); err != nil {
		t.Fatal(err)
	}
	if got := s.Take(now, 2, time.Hour, 9, 4, nil); len(got) > 0 {
		t.Errorf("with two held: %v", got)
	}
	s.Holds().Confirm(1)
	if got := s.Take(now, 2, time.Hour, 9, 4, nil); len(got) > 0 {
		t.Errorf("with one held: %v", got)
	}
	s.Holds().Confirm(2)
	if got := offsetsOf(s.Take(now, 2, time.Hour, 9, 4, nil)); !slices.Equal(got, []seq.Offset{0}) {
		t.Errorf("with none held: %v", got)
	}
}

package channel

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// pair is a State and its model, which take the same steps.
type pair struct {
	s   *State
	m   *model
	now time.Time
	end seq.Offset
	log []string

	hides bool       // the topic is paused
	shown seq.Offset // what is visible then

	nearby time.Duration // in place of soon
}

func (p *pair) note(format string, args ...any) {
	p.log = append(p.log, fmt.Sprintf(format, args...))
}

// visible returns the end of what may be delivered.
func (p *pair) visible() seq.Offset {
	if p.hides {
		return p.shown
	}
	return p.end
}

// step does one random thing to both.
func (p *pair) step(rng *rand.Rand) error {
	consumer, delay := uint64(1+rng.IntN(3)), time.Duration(rng.IntN(40))*time.Second
	o := p.m.floor + seq.Offset(rng.IntN(30))
	if flying := p.m.offsets(InFlight); len(flying) > 0 && rng.IntN(4) > 0 {
		o = flying[rng.IntN(len(flying))]
		if rng.IntN(5) > 0 {
			consumer = p.m.at[o].consumer
		}
	}
	o = p.m.standing(o)
	switch n := rng.IntN(100); {
	case n < 25:
		max := 1 + rng.IntN(8)
		p.note("take %d for %d until +%v below %d", max, consumer, delay, p.visible())
		got := p.s.Take(p.now, consumer, delay+1, max, p.visible(), nil)
		if diff := gocmp.Diff(p.m.take(p.now, consumer, delay+1, max, p.visible()), got); diff != "" {
			return errors.New(diff)
		}
	case n < 50:
		p.note("finish %d by %d", o, consumer)
		want, name := p.m.owned(o, consumer), o
		if want == nil {
			name = p.m.at[o].name(o)
			p.m.at[o].state = Finished
			p.m.settle()
		}
		return same(p.s.Finish(name, consumer), want)
	case n < 53:
		p.note("hold %d by %d", o, consumer)
		want := p.m.owned(o, consumer)
		if want == nil {
			p.m.at[o].held = true
		}
		return same(p.s.Holds().Add(o, consumer), want)
	case n < 56:
		return p.decide(rng)
	case n < 60:
		if rng.IntN(3) == 0 {
			delay = 0
		}
		p.note("requeue %d by %d after %v", o, consumer, delay)
		want := p.m.owned(o, consumer)
		if want == nil {
			p.m.requeue(o, p.now, delay)
		}
		return same(p.s.Requeue(o, consumer, p.now, delay), want)
	case n < 65:
		p.note("touch %d by %d for %v", o, consumer, delay)
		want := p.m.owned(o, consumer)
		if want == nil {
			e := p.m.at[o]
			p.m.clock++
			e.joined = len(p.m.takenBy(consumer)) > 1
			e.due, e.order = p.now.Add(delay), p.m.clock
			if last := e.taken.Add(50 * time.Second); e.due.After(last) {
				e.due = last
			}
		}
		return same(p.s.Touch(o, consumer, p.now, delay, 50*time.Second), want)
	case n < 80:
		p.now = p.now.Add(time.Duration(rng.IntN(20)) * time.Second)
		p.end += seq.Offset(rng.IntN(10))
		p.note("expire at %v, end %d", p.now.Unix(), p.end)
		var got []seq.Offset
		p.s.Expire(p.now, func(_ uint64, o seq.Offset) { got = append(got, o) })
		if diff := gocmp.Diff(p.m.expire(p.now), got); diff != "" {
			return errors.New(diff)
		}
	default:
		return p.rareStep(rng, o, consumer, delay)
	}
	return nil
}

func (p *pair) rareStep(rng *rand.Rand, o seq.Offset, consumer uint64, delay time.Duration) error {
	o = p.m.standing(min(o, max(p.end, p.m.floor+1)-1))
	e := p.m.at[o]
	flying := e != nil && e.state == InFlight && !e.held
	switch rng.IntN(31) {
	case 0, 1, 2, 3:
		if o >= p.end {
			return nil
		}
		p.note("defer %d until +%v", o, delay)
		p.s.Defer(o, p.now, delay)
		p.m.publishDeferred(o, p.now.Add(delay))
	case 4, 5:
		p.note("give back %d", o)
		p.s.UndoTake(o)
		if flying {
			e.untake()
			p.m.enqueueFirst(o)
		}
	case 6:
		p.note("drop %d", o)
		p.s.Drop(o)
		if flying {
			e.state = Finished
			p.m.settle()
		}
	case 7:
		company := rng.IntN(4) == 0
		p.note("lost %d, company %v", consumer, company)
		if got, want := p.s.TakenBy(consumer).Lost(p.now, company), p.m.lost(consumer, p.now, company); got != want {
			return fmt.Errorf("%d were in flight, want %d", got, want)
		}
	case 8:
		p.note("disconnect %d", consumer)
		if got, want := p.s.TakenBy(consumer).Offsets(), p.m.names(p.m.takenBy(consumer)); !slices.Equal(got, want) {
			return fmt.Errorf("taken were %v, want %v", got, want)
		}
		if got, want := p.s.TakenBy(consumer).Disconnect(), p.m.disconnect(consumer); got != want {
			return fmt.Errorf("%d were in flight, want %d", got, want)
		}
	case 9:
		p.note("advance to %d", o)
		p.s.AdvanceTo(o)
		p.m.advance(o)
	case 10:
		o = p.end - min(p.end, seq.Offset(rng.IntN(40)))
		p.note("seek %d", o)
		p.s.Operator().Seek(o)
		p.m.seek(o)
	case 11:
		if rng.IntN(5) == 0 {
			p.note("empty")
			p.s.Operator().Seek(max(p.end, p.s.View().Cursor()))
			p.m.seek(max(p.end, p.m.cursor))
		}
	case 12:
		paused := rng.IntN(3) == 0
		p.note("pause %v", paused)
		p.s.Paused = paused
		p.m.paused = paused
		p.hides, p.shown = rng.IntN(2) == 0, p.end
	case 13:
		ordered := rng.IntN(3) == 0
		p.note("ordered %v", ordered)
		p.s.Operator().SetOrder(policy.StrictIf(ordered))
		p.m.ordered = ordered
	case 14:
		return p.restart()
	case 15:
		p.note("trim")
		p.s.Trim()
		if p.s.ledger.t == nil {
			p.m.isolation = newIsolationModel()
		}
	case 16, 17:
		p.move(rng, o, delay)
	case 18:
		p.addressed(rng, delay)
	case 19:
		expired := rng.IntN(2) == 0
		p.note("take back %d, expired %v", o, expired)
		p.s.Retries().Keep(Undeliverable{Delivery: Delivery{Offset: o}, Consumer: 7, Expired: expired}, consumer)
		switch {
		case !flying || e.consumer != consumer:
		case expired:
			p.m.lapse(o)
		default:
			p.m.enqueue(o)
		}
	case 27:
		p.note("expire %d", o)
		p.s.Retries().Expire(o)
		if flying {
			e.untake()
			p.m.lapse(o)
		}
	case 20, 21:
		return p.takeSpent(rng, consumer, delay)
	case 22, 23:
		return p.park(rng, o, consumer, delay)
	case 24, 25, 26:
		return p.reschedule(rng)
	default:
		q := policy.Policy{MaxAttempts: rng.IntN(4)}
		if rng.IntN(4) == 0 {
			q.OnExhausted = policy.Block
		}
		if rng.IntN(2) == 0 {
			q.Backoff = policy.Backoff{Min: time.Second, Max: 15 * time.Second}
		}
		p.note("policy %+v", q)
		p.s.Operator().SetPolicy(q)
		p.m.setPolicy(q)
	}
	return nil
}

func same(got, want error) error {
	if !errors.Is(got, want) || (got == nil) != (want == nil) {
		return errors.New(gocmp.Diff(fmt.Sprint(want), fmt.Sprint(got)))
	}
	return nil
}

func TestStateMatchesModel(t *testing.T) {
	rng := testrand.New(t)
	for history := range 400 {
		ordered := rng.IntN(4) == 0
		p := &pair{s: New(3, ordered), m: newModel(3, ordered), now: time.Unix(1000, 0), end: 3, nearby: time.Duration(rng.Int64N(int64(12 * time.Second)))}
		p.s.ledger.nearby = p.nearby
		for range 300 {
			p.now = p.now.Add(time.Duration(rng.IntN(1000)))
			err := p.step(rng)
			if err == nil {
				err = p.m.check(p.s, p.now, p.end, p.visible())
			}
			if err != nil {
				t.Fatalf("history %d: %v\n%s", history, err, p.log)
			}
		}
	}
}

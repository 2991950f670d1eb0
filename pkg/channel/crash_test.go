package channel

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// crashes is a channel whose consumers crash, or hang, when they handle a poison message.
type crashes struct {
	s        *State
	now      time.Time
	end      seq.Offset
	key      func(seq.Offset) string
	poison   func(seq.Offset) bool
	finished []seq.Offset
	spent    []seq.Offset // exhausted
	failures int
	next     uint64 // number of the next consumer
}

const crashTimeout = time.Minute

func newCrashes(order policy.Order, p policy.Policy, end seq.Offset) *crashes {
	c := &crashes{s: New(0, false), now: time.Unix(1000, 0), end: end}
	c.key = func(seq.Offset) string { return "" }
	c.s.Operator().SetOrder(order)
	c.s.Operator().SetPolicy(p)
	return c
}

func (c *crashes) take(consumer uint64, max int) []Delivery {
	for {
		o, some := c.s.Keyed().Unknown(max, c.end)
		if !some {
			break
		}
		c.s.Keyed().Learn(o, []byte(c.key(o)))
	}
	return c.s.Take(c.now, consumer, crashTimeout, max, c.end, nil)
}

// handle lets a consumer handle messages in order, up to the first poison one. It returns the consumer that
// continues: another one after a crash.
func (c *crashes) handle(t *testing.T, consumer uint64, all []Delivery, hangs bool) uint64 {
	for _, d := range all {
		switch {
		case !c.poison(d.Offset):
			if err := c.s.Finish(d.Offset, consumer); err != nil {
				t.Fatal(err)
			}
			c.finished = append(c.finished, d.Offset)
		case hangs:
			c.failures++
			c.now = c.now.Add(crashTimeout)
			c.s.Expire(c.now, nil)
			return consumer
		default:
			c.failures++
			c.s.TakenBy(consumer).Lost(c.now, false)
			c.next++
			return c.next
		}
	}
	return consumer
}

// dispose finishes the exhausted messages.
func (c *crashes) dispose(t *testing.T) {
	for _, x := range c.s.Retries().Take(c.now, 1<<40, time.Minute, 1<<20, nil) {
		c.spent = append(c.spent, x.Offset)
		if err := c.s.Finish(x.Offset, 1<<40); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever the order, the number of consumers and their width: a poison message is exhausted within a bounded number
// of crashes, no healthy one ever is, all others are finished, and those with an order in their order.
func TestOnlyPoisonIsExhaustedByCrashes(t *testing.T) {
	r := testrand.New(t)
	for range 300 {
		order := []policy.Order{policy.Unordered, policy.Strict, policy.ByKey}[r.IntN(3)]
		p := policy.Policy{MaxAttempts: 1 + r.IntN(5), OnExhausted: policy.DeadLetter}
		if r.IntN(2) == 0 {
			p.Backoff = policy.Backoff{Min: time.Second, Max: time.Minute}
		}
		c := newCrashes(order, p, seq.Offset(20+r.IntN(200)))
		bad := []seq.Offset{seq.Offset(r.IntN(int(c.end))), seq.Offset(r.IntN(int(c.end)))}
		if bad[0] == bad[1] {
			bad = bad[:1]
		}
		c.poison = func(o seq.Offset) bool { return slices.Contains(bad, o) }
		c.key = func(o seq.Offset) string { return string(rune('a' + o%7)) }
		hangs := r.IntN(4) == 0
		var ids []uint64
		for range 1 + r.IntN(3) {
			c.next++
			ids = append(ids, c.next)
		}
		what := fmt.Sprintf("order %q, %+v, %d messages, poison %v, %d consumers, hangs %v", order, p, c.end, bad, len(ids), hangs)
		for idle := 0; idle < 4; {
			i, before := r.IntN(len(ids)), len(c.finished)+c.failures
			ids[i] = c.handle(t, ids[i], c.take(ids[i], 1+r.IntN(100)), hangs)
			if err := check(c.s); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			c.dispose(t)
			if len(c.finished)+c.failures > before {
				idle = 0
			} else if at, ok := c.s.NextEvent(); ok {
				c.now = at
				c.s.Expire(at, nil)
			} else {
				idle++
			}
		}
		slices.Sort(bad)
		slices.Sort(c.spent)
		if !slices.Equal(c.spent, bad) {
			t.Fatalf("%s: %v are exhausted", what, c.spent)
		}
		if most := len(bad) * (suspectFrom + p.MaxAttempts); c.failures > most {
			t.Fatalf("%s: %d failures, want at most %d", what, c.failures, most)
		}
		if len(c.finished)+len(bad) != int(c.end) {
			t.Fatalf("%s: %d are finished", what, len(c.finished))
		}
		last := map[string]seq.Offset{}
		for _, o := range c.finished {
			key := c.key(o)
			if order == policy.Strict {
				key = ""
			}
			if at, some := last[key]; some && at > o && order != policy.Unordered {
				t.Fatalf("%s: %d is finished after %d", what, o, at)
			}
			last[key] = o
		}
	}
}

// suspected returns a channel in which messages 0 to n have failed together three times.
func suspected(t *testing.T, n, end seq.Offset) *crashes {
	t.Helper()
	c := newCrashes(policy.Unordered, policy.Policy{MaxAttempts: 5}, end)
	for consumer := uint64(1); consumer <= suspectFrom; consumer++ {
		if got := c.s.Take(c.now, consumer, crashTimeout, int(n), n, nil); len(got) != int(n) || got[0].Alone {
			t.Fatalf("taken %v", got)
		}
		c.s.TakenBy(consumer).Lost(c.now, false)
	}
	return c
}

func TestOtherConsumersGoOnBesideASuspect(t *testing.T) {
	c := suspected(t, 3, 200)
	if got := c.take(10, 100); len(got) != 1 || !got[0].Alone || got[0].Attempts != 4 {
		t.Fatalf("taken %v, want a suspect alone", got)
	}
	if got := c.take(10, 100); len(got) != 0 || !c.s.Isolation().Holds(10) {
		t.Errorf("beside a suspect: %v", got)
	}
	if got := c.take(11, 100); len(got) != 100 || got[0].Alone {
		t.Errorf("another consumer takes %d", len(got))
	}
	if x := c.s.Isolation().Suspects(); x != (Suspects{Count: 3, Offset: 0, InFlight: true}) {
		t.Errorf("%+v", x)
	}
}

func TestBusyConsumerIsReservedForASuspect(t *testing.T) {
	c := suspected(t, 2, 200)
	busy := c.s.Take(c.now, 10, crashTimeout, 1, 200, nil)
	if len(busy) != 1 || !busy[0].Alone {
		t.Fatalf("taken %v", busy)
	}
	if err := c.s.Requeue(busy[0].Offset, 10, c.now, time.Hour); err != nil {
		t.Fatal(err)
	}
	others := c.take(10, 5) // they have their turn
	if len(others) != 5 || others[0].Alone {
		t.Fatalf("taken %v", others)
	}
	for i, d := range others {
		if got := c.take(10, 100); len(got) != 0 || !c.s.Isolation().Holds(10) {
			t.Fatalf("with %d messages it gets %v", len(others)-i, got)
		}
		if err := c.s.Finish(d.Offset, 10); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.take(10, 100); len(got) != 1 || !got[0].Alone {
		t.Errorf("taken %v, want a suspect alone", got)
	}
}

func TestIdleReservationPasses(t *testing.T) {
	c := suspected(t, 2, 200)
	c.s.Company = func(uint64) bool { return true }
	if got := c.take(10, 9); len(got) != 0 || !c.s.Isolation().Holds(10) {
		t.Fatalf("with company it gets %v", got)
	}
	c.now = c.now.Add(reservePatience)
	if got := c.take(11, 9); len(got) != 9 || c.s.Isolation().Holds(11) {
		t.Errorf("another one gets %d messages", len(got))
	}
	c.now = c.now.Add(1)
	if c.take(11, 9); !c.s.Isolation().Holds(11) || c.s.Isolation().Holds(10) {
		t.Error("the idle consumer stays reserved")
	}
}

// A message that timed out beside others may have waited behind one of them, even if those were answered before.
func TestTimeoutsAreSharedWithWhatWasInFlightBefore(t *testing.T) {
	c := newCrashes(policy.Unordered, policy.Policy{MaxAttempts: 1}, 9)
	c.s.Take(c.now, 1, crashTimeout, 2, 9, nil)
	if err := c.s.Finish(0, 1); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(crashTimeout)
	c.s.Expire(c.now, nil)
	if a := c.s.View().Attempts(1); a.Shared() != 1 {
		t.Errorf("%d shared failures", a.Shared())
	}
	c.s.Take(c.now, 2, crashTimeout, 1, 2, nil)
	c.now = c.now.Add(crashTimeout)
	c.s.Expire(c.now, nil)
	if state, _ := c.s.View().StateOf(1); state != Exhausted {
		t.Errorf("after a time-out alone it is %v", state)
	}
}

func TestSuspectsOfATagStayWithIt(t *testing.T) {
	c := suspected(t, 2, 9)
	got := c.s.Sorting().Take(1, c.now, 10, crashTimeout, 9, 1, nil)
	if len(got) != 1 || !got[0].Alone {
		t.Fatalf("taken %v", got)
	}
	c.s.Sorting().Sort(0, 2)
	if got := c.s.Sorting().Take(1, c.now, 10, crashTimeout, 9, 1, nil); len(got) != 0 {
		t.Errorf("a consumer of another tag takes %v", got)
	}
	if got := c.s.Sorting().Take(2, c.now, 11, crashTimeout, 9, 1, nil); len(got) != 1 || !got[0].Alone || got[0].Attempts != 4 {
		t.Errorf("a consumer of its tag takes %v", got)
	}
}

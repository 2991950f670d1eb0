package topic

import (
	"errors"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/seq"
)

// next makes the bench's partition that of the next leader, which was told what is in flight.
func (b *bench) next(flights []Flights, gone func(string) bool) {
	b.t.Helper()
	if err := errors.Join(b.p.Close(errors.New("another leader")), b.log.Close()); err != nil {
		b.t.Fatal(err)
	}
	b.told, b.gone = &InFlight{All: flights, At: b.now}, gone
	b.open()
}

func by(id Identity, holding ...seq.Offset) func(*ConsumerOptions) {
	return func(o *ConsumerOptions) { o.Identity, o.Holding = id, holding }
}

func TestFrozenPartitionAcceptsNoAnswers(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	k := b.join(c, by(Identity{"n1", 1}))
	b.publish("a", "b", "c")
	want(t, "first", k.take(3, b.now), "a b c")
	b.p.Gate.Suspend()
	if got := b.p.Freeze(b.now, func(Identity) bool { return true }); len(got) != 1 || len(got[0].Messages) != 3 {
		t.Errorf("in flight: %+v", got)
	}
	for name, err := range map[string]error{
		"finish": k.Finish(k.got["a"]), "requeue": k.Requeue(k.got["b"], b.now, 0), "touch": k.Touch(k.got["c"], b.now), "return": c.Return(Identity{"n1", 1}),
	} {
		if !errors.Is(err, failure.Moving) {
			t.Errorf("%s while the leadership is transferred: %v", name, err)
		}
	}
	b.p.Gate.Resume() // it failed
	k.finish("a", "b", "c")
	if n := k.InFlight(); n != 0 {
		t.Errorf("%d are in flight", n)
	}
}

func TestConsumersTakeOverWhatIsInFlight(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	stays, leaves, none := b.join(c, by(Identity{"n1", 1})), b.join(c, by(Identity{"n2", 1})), b.join(c)
	b.publish("a", "b", "c", "d", "e")
	want(t, "first", stays.take(3, b.now), "a b c")
	want(t, "second", leaves.take(1, b.now), "d")
	want(t, "third", none.take(1, b.now), "e")
	flights := b.p.Freeze(b.now, func(id Identity) bool { return id.Node == "n1" })
	b.next(flights, nil)

	c = b.channel("c", 1)
	if n := c.Stats().InFlight; n != 3 {
		t.Errorf("%d in flight", n)
	}
	other := b.join(c, by(Identity{"n3", 1}))
	want(t, "what went to clients that do not stay", other.take(5, b.now), "d e")
	again := b.join(c, by(Identity{"n1", 1}, stays.got["a"], stays.got["c"]))
	if n := again.InFlight(); n != 2 {
		t.Errorf("the consumer has %d", n)
	}
	if err := errors.Join(again.Finish(stays.got["a"]), again.Finish(stays.got["c"])); err != nil {
		t.Error(err)
	}
	attempts := 0
	if _, err := other.Take(b.now, 5, func(d *Delivery) error {
		want(t, "what the client had not got", string(d.Body), "b")
		attempts = int(d.Attempts)
		return nil
	}); err != nil || attempts != 1 {
		t.Errorf("attempt %d, %v", attempts, err)
	}
}

func TestMessagesOfConsumersThatDoNotComeAreReturned(t *testing.T) {
	for name, x := range map[string]struct {
		gone  func(node string) bool
		after time.Duration
		act   func(*Channel) error
		want  string
	}{
		"at once":        {nil, time.Second, nil, ""},
		"long after":     {nil, ReturnAfter, nil, "a"},
		"its node says":  {nil, 0, func(c *Channel) error { return c.Return(Identity{"n1", 1}) }, "a"},
		"another's does": {nil, 0, func(c *Channel) error { return c.Return(Identity{"n1", 2}) }, ""},
		"its node is":    {func(node string) bool { return node == "n1" }, 0, nil, "a"},
		"another's is":   {func(node string) bool { return node == "n2" }, 0, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			k := b.join(b.channel("c", 1), by(Identity{"n1", 1}))
			b.publish("a")
			want(t, "first", k.take(1, b.now), "a")
			b.next(b.p.Freeze(b.now, func(Identity) bool { return true }), x.gone)
			b.armed = nil
			c := b.channel("c", 1)
			if len(b.armed) != 1 {
				t.Error("no ticks are requested")
			}
			b.now = b.now.Add(x.after)
			if x.act != nil {
				if err := x.act(c); err != nil {
					t.Error(err)
				}
			}
			c.Tick(b.now)
			if more := c.Tick(b.now); more != (x.want == "") {
				t.Errorf("further ticks: %t", more)
			}
			want(t, "to another", b.join(c).take(1, b.now), x.want)
		})
	}
}

// Until the first lease begins, a new leader cannot accept answers, and must not take what is in flight from its
// consumers.
func TestAnswersWaitForTheFirstLease(t *testing.T) {
	b := newBench(t)
	k := b.join(b.channel("c", 1), by(Identity{"n1", 1}))
	b.publish("a")
	k.take(1, b.now)
	b.next(b.p.Freeze(b.now, func(Identity) bool { return true }), nil)
	again := b.join(b.channel("c", 1), by(Identity{"n1", 1}, k.got["a"]))
	leased := false
	b.p.Gate.leased = func(time.Time) bool { return leased }
	if err := errors.Join(again.Finish(k.got["a"]), again.Touch(k.got["a"], b.now)); !errors.Is(err, failure.Moving) || again.InFlight() != 1 {
		t.Errorf("before the lease: %v, %d in flight", err, again.InFlight())
	}
	leased = true
	if err := again.Finish(k.got["a"]); err != nil {
		t.Error(err)
	}
}

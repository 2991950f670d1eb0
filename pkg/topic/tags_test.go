package topic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/seq"
)

// tagged returns a message with a tag, which its body begins with.
func tagged(tag string, i int) Message {
	m := Message{Body: fmt.Appendf(nil, "%s%d", tag, i)}
	if tag != "" {
		m.Header = fmt.Appendf(nil, `{"##client_dispatch_tag":%q}`, tag)
	}
	return m
}

func wants(tag string) func(*ConsumerOptions) {
	return func(o *ConsumerOptions) { o.Tag = tag }
}

func TestBusyTaggedConsumerBlocksNoOther(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	busy, other, plain := b.join(c, wants("a")), b.join(c, wants("b")), b.join(c)
	for i := range 100 {
		b.publishAll([]Message{tagged("a", i), tagged("b", i), tagged("x", i), tagged("", i)})
	}
	// The consumer of tag a does not take messages yet.
	if got := plain.take(1000, b.now); strings.Count(got, "x") != 100 || strings.ContainsAny(got, "ab") || len(strings.Fields(got)) != 200 {
		t.Errorf("the consumer without a tag got %s", got)
	}
	if got := other.take(1000, b.now); strings.Count(got, "b") != 100 || len(strings.Fields(got)) != 100 {
		t.Errorf("the consumer of tag b got %s", got)
	}
	if s := c.Stats(); s.Depth != 100 || s.InFlight != 300 {
		t.Errorf("%+v", s)
	}
	want := ""
	for i := range 100 {
		want += fmt.Sprintf(" a%d", i)
	}
	if got := busy.take(1000, b.now); got != want[1:] {
		t.Errorf("the consumer of tag a got %s", got)
	}
}

// A consumer that finds messages of other tags wakes the consumers that wait
// for them.
func TestConsumerIsWokenForMessagesThatAnotherFound(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	plain, a := b.join(c), b.join(c, wants("a"))
	for _, k := range []*reader{plain, a} {
		if got := k.take(1, b.now); got != "" {
			t.Fatal(got)
		}
		k.wakes = 0
	}
	b.publishAll([]Message{tagged("a", 0)})
	if plain.wakes != 1 || a.wakes != 0 {
		t.Fatalf("woken %d and %d times", plain.wakes, a.wakes)
	}
	if got := plain.take(1, b.now); got != "" || a.wakes != 1 {
		t.Errorf("%q; the consumer of the tag was woken %d times", got, a.wakes)
	}
	if got := a.take(1, b.now); got != "a0" {
		t.Errorf("%q", got)
	}
}

// When the last consumer of a tag leaves, its messages are for all consumers.
func TestTagWithoutAConsumerCountsAsNone(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	plain, a := b.join(c), b.join(c, wants("a"))
	b.publishAll([]Message{tagged("a", 0), tagged("a", 1), tagged("a", 2)})
	if got := plain.take(9, b.now); got != "" {
		t.Fatal(got)
	}
	if got := a.take(1, b.now); got != "a0" {
		t.Fatal(got)
	}
	plain.wakes = 0
	a.Leave()
	if got := plain.take(9, b.now); plain.wakes == 0 || len(strings.Fields(got)) != 3 {
		t.Errorf("woken %d times, got %q", plain.wakes, got)
	}
}

func TestUntaggedMessagesWaitForUntaggedConsumer(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	a := b.join(c, wants("a"))
	b.publishAll([]Message{tagged("", 0), tagged("a", 1), tagged("b", 2)})
	if got := a.take(9, b.now); got != "a1" {
		t.Errorf("got %q", got)
	}
	if got := b.join(c).take(9, b.now); got != "0 b2" {
		t.Errorf("got %q", got)
	}
}

func TestTagsAreBounded(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	for i := range 254 {
		b.join(c, wants(fmt.Sprint("t", i)))
	}
	b.join(c, wants("t0"))
	if _, err := c.Join(ConsumerOptions{Tag: "one-more"}, 0); !errors.Is(err, errTooManyTags) {
		t.Errorf("joined: %v", err)
	}
}

// A message that the filter does not choose is finished for the channel. A sample is
// drawn from the messages for a consumer's tags.
func TestUnselectedMessagesAreFinished(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	filter, err := header.ParseFilter([]byte(`{"type":1,"filter_ext_key":"k","filter_data":"v"}`))
	if err != nil {
		t.Fatal(err)
	}
	k := b.join(c, func(o *ConsumerOptions) { o.Filter = filter })
	b.publishAll([]Message{{Body: []byte("0")}, {Body: []byte("1"), Header: []byte(`{"k":"v"}`)}, {Body: []byte("2"), Header: []byte(`{"k":"x"}`)}})
	if got := k.take(9, b.now); got != "1" {
		t.Errorf("got %q", got)
	}
	if err := k.Finish(1); err != nil {
		t.Fatal(err)
	}
	if s := c.Stats(); s.Depth != 0 || s.InFlight != 0 || c.Floor() != 3 || s.Delivered != 1 {
		t.Errorf("%+v, floor %d", s, c.Floor())
	}

	d := b.channel("d", 2)
	sampled := b.join(d, func(o *ConsumerOptions) { o.SampleRate = 1 })
	a := b.join(d, wants("a"))
	for i := range 50 {
		b.publishAll([]Message{tagged("a", i)})
	}
	if got := sampled.take(99, b.now); got != "" {
		t.Errorf("got %q", got)
	}
	if got := len(strings.Fields(a.take(99, b.now))); got != 50 {
		t.Errorf("the sampling of one consumer left %d of 50 messages for another", got)
	}
}

// Consumers with and without tags join and leave, and answer or do not: a message goes
// only to a consumer that it is for at that time, and all are finished in the end.
func TestRandomConsumersWithTags(t *testing.T) {
	rng := rand.New(rand.NewPCG(testrand.Seed(t), 2))
	names := []string{"", "a", "b", "c"}
	for round := range 20 {
		b := newBench(t)
		c := b.channel("c", 1)
		var all []*reader
		inFlight := map[*reader][]seq.Offset{}
		asked := func(tag string) bool {
			for _, k := range all {
				if k.o.Tag == tag {
					return true
				}
			}
			return false
		}
		step := func(n int) {
			switch {
			case n == 0 && len(all) < 6:
				all = append(all, b.join(c, wants(names[rng.IntN(len(names))])))
			case n == 1 && len(all) > 0:
				i := rng.IntN(len(all))
				all[i].Leave()
				delete(inFlight, all[i])
				all = append(all[:i], all[i+1:]...)
			case len(all) > 0:
				k := all[rng.IntN(len(all))]
				_, err := k.Take(b.now, rng.IntN(5), func(d *Delivery) error {
					tag := header.TagOf(d.Header)
					if tag != k.o.Tag && (k.o.Tag != "" || asked(tag)) {
						t.Fatalf("a consumer of tag %q got %q", k.o.Tag, d.Body)
					}
					inFlight[k] = append(inFlight[k], d.ID.Offset())
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range inFlight[k] {
					if rng.IntN(3) == 0 {
						err = k.Requeue(o, b.now, 0)
					} else {
						err = k.Finish(o)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				delete(inFlight, k)
			}
		}
		const messages = 120
		for i := range messages {
			b.publishAll([]Message{tagged(names[rng.IntN(len(names))], i)})
			step(rng.IntN(8))
		}
		all = append(all, b.join(c))
		for n := 0; c.Floor() < messages; n++ {
			if n > 1e5 {
				t.Fatalf("round %d stands at %d of %d: %+v", round, c.Floor(), messages, c.Stats())
			}
			if step(2 + rng.IntN(3)); n%500 == 499 {
				b.now = b.now.Add(time.Second)
			}
		}
	}
}

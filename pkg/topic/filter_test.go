package topic

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/record"
)

// alter gives a channel a filter.
func (b *bench) alter(c *Channel, filter string) {
	b.t.Helper()
	c.Configure(ChannelOptions{Filter: filter})
	if err := c.Selection.Broken(); err != nil && !strings.Contains(filter, "broken") {
		b.t.Fatal(err)
	}
}

func typed(of string, i int) Message {
	return Message{Body: fmt.Appendf(nil, "%s%d", of, i), Header: fmt.Appendf(nil, `{"type":%q}`, of), Key: fmt.Appendf(nil, "k%d", i)}
}

func TestChannelGetsMessagesThatItsFilterSelects(t *testing.T) {
	b := newBench(t)
	c, all := b.channel("c", 1), b.channel("d", 2)
	b.alter(c, `header.type == "a" && key != "k1"`)
	for i := range 3 {
		b.publishAll([]Message{typed("a", i), typed("b", i)})
	}
	k := b.join(c)
	if got := k.take(9, b.now); got != "a0 a2" {
		t.Errorf("got %q", got)
	}
	k.finish("a0", "a2")
	if s := c.Stats(); s.Depth != 0 || s.InFlight != 0 || c.Floor() != 6 || c.Selection.Counts().Left != 4 {
		t.Errorf("%+v, floor %d, %+v", s, c.Floor(), c.Selection.Counts())
	}
	if got := b.join(all).take(9, b.now); len(strings.Fields(got)) != 6 {
		t.Errorf("a channel without a filter got %q", got)
	}
}

// The filter decides again on messages that consumers return. A skipped message stays finished until
// a seek moves the channel back to it.
func TestAlteredFilterAppliesAtOnce(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	k := b.join(c)
	b.alter(c, `header.type == "a"`)
	b.publishAll([]Message{typed("b", 0), typed("a", 1)})
	if got := k.take(9, b.now); got != "a1" {
		t.Fatalf("got %q", got)
	}
	b.publishAll([]Message{typed("a", 2), typed("b", 3)})
	b.alter(c, `header.type == "b"`)
	if err := k.Requeue(k.got["a1"], b.now, 0); err != nil {
		t.Fatal(err)
	}
	if got := k.take(9, b.now); got != "b3" {
		t.Errorf("got %q, want what the new filter chooses", got)
	}
	k.finish("b3")
	if err := c.Seek(0); err != nil {
		t.Fatal(err)
	}
	if got := k.take(9, b.now); got != "b0 b3" {
		t.Errorf("after a seek: %q", got)
	}
	k.finish("b0", "b3")
	b.alter(c, "")
	b.publishAll([]Message{typed("x", 4)})
	if got := k.take(9, b.now); got != "x4" {
		t.Errorf("without a filter: %q", got)
	}
}

// A message that was taken, and whose timeout passed before the filter was evaluated, was not
// delivered: its attempts do not exempt it from the filter.
func TestMessageThatTimesOutBeforeFilteringIsSkipped(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	b.alter(c, `header.type == "a"`)
	b.publishAll([]Message{typed("b", 0)})
	slow, k := b.join(c), b.join(c)
	slow.Consumer.take(b.now, 1)
	if len(slow.taken) != 1 {
		t.Fatalf("%d are taken", len(slow.taken))
	}
	b.now = b.now.Add(time.Hour) // the disk is slow
	c.Tick(b.now)
	if got := k.take(9, b.now); got != "" || c.Selection.Counts().Left != 1 {
		t.Errorf("got %q, %+v", got, c.Selection.Counts())
	}
}

func TestFilterIgnoresOperatorsMessages(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 7)
	b.alter(c, "false")
	sent, moved := typed("sent", 0), typed("moved", 0)
	sent.Address = &record.Address{Channel: 7, Timestamp: 1}
	moved.Address = &record.Address{Channel: 7, Timestamp: 1, Moves: true, Offset: 1 << 40}
	b.publishAll([]Message{sent, moved})
	if got := b.join(c).take(9, b.now); got != "sent0" {
		t.Errorf("got %q", got)
	}
}

// It is still the operator's when it was appended again, however often.
func TestFilterIgnoresOperatorsMessagesAfterLongRequeue(t *testing.T) {
	b := movingBench(t, MovePolicy{RequeueInMemory: time.Minute})
	c := b.channel("c", 7)
	b.alter(c, "false")
	sent := typed("sent", 0)
	sent.Address = &record.Address{Channel: 7, Partition: 3, Timestamp: 1}
	b.publishAll([]Message{sent})
	r := b.join(c)
	for range 3 {
		want(t, "taken", r.take(9, b.now), "sent0")
		r.requeue(b.now, time.Hour, "sent0")
		b.moved()
		b.now = b.now.Add(time.Hour)
		c.Tick(b.now)
	}
	if end := b.log.End(); end != 4 {
		t.Errorf("the log ends at %d, want the message and three copies", end)
	}
}

// A filter with tags: a message that the filter chooses is delivered to a consumer of its tag.
func TestFilterAndTags(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	b.alter(c, `tag != "b" && size < 3`)
	a, plain := b.join(c, wants("a")), b.join(c)
	b.publishAll([]Message{tagged("a", 1), tagged("b", 2), tagged("", 3), tagged("a", 100)})
	if got := plain.take(9, b.now); got != "3" {
		t.Errorf("without a tag: %q", got)
	}
	if got := a.take(9, b.now); got != "a1" {
		t.Errorf("with a tag: %q", got)
	}
}

// The server reads from a client while it looks for the client's message among many
// that the filter skips.
func TestLongSkipIsInterrupted(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	b.alter(c, `header.type == "a"`)
	for i := range takeRounds + 1 {
		b.publishAll([]Message{typed("b", i)})
	}
	b.publishAll([]Message{typed("a", 0)})
	k := b.join(c)
	if got := k.take(1, b.now); got != "" || k.wakes != 1 {
		t.Errorf("got %q, woken %d times", got, k.wakes)
	}
	if got := k.take(1, b.now); got != "a0" {
		t.Errorf("got %q", got)
	}
}

func TestInvalidFilterDeliversNothing(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	k := b.join(c)
	b.alter(c, "broken(")
	b.publishAll([]Message{typed("a", 1)})
	if got := k.take(9, b.now); got != "" || c.Stats().Depth != 1 {
		t.Errorf("got %q, %+v", got, c.Stats())
	}
	woken := k.wakes
	b.alter(c, "")
	if got := k.take(9, b.now); got != "a1" || k.wakes == woken {
		t.Errorf("got %q, woken %v", got, k.wakes > woken)
	}
}

// The filter decides on a deferred message when it is due.
func TestFilterAppliesToDeferredMessages(t *testing.T) {
	b := newBench(t)
	c := b.channel("c", 1)
	b.alter(c, `header.type == "a"`)
	late := []Message{typed("a", 1), typed("b", 2)}
	for i := range late {
		late[i].Delay = time.Minute
	}
	b.publishAll(late)
	k := b.join(c)
	if got := k.take(9, b.now); got != "" {
		t.Errorf("before it is due: %q", got)
	}
	b.now = b.now.Add(2 * time.Minute)
	c.Tick(b.now)
	if got := k.take(9, b.now); got != "a1" {
		t.Errorf("when they are due: %q", got)
	}
	k.finish("a1")
	if s := c.Stats(); s.Depth+s.Deferred != 0 {
		t.Errorf("%+v", s)
	}
}

package topic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// publishMany publishes messages of one key.
func (b *bench) publishMany(key byte, n int) {
	b.t.Helper()
	bodies := slices.Repeat([]string{string(key)}, n)
	for part := range slices.Chunk(bodies, 1000) {
		b.publishAll(keyedOf(part...))
	}
}

// TestReadyMessagesDoNotWaitForKeys: ready messages do not wait until the keys of many later ones
// are read.
func TestReadyMessagesDoNotWaitForKeys(t *testing.T) {
	b, c := keyedBench(t, "b")
	b.publishMany('a', 9*keyScanMax)
	scanned := seq.Offset(0)
	if _, err := b.join(c).Take(b.now, 9, func(*Delivery) error {
		c.mu.Lock()
		scanned, _ = c.state.Keyed().Unknown(9, b.log.End())
		c.mu.Unlock()
		return nil
	}); err != nil || scanned != keyScanMax {
		t.Errorf("%d messages were looked at first, %v", scanned, err)
	}
}

// TestCommandsAreHandledWhileKeysAreRead: one Take reads a limited number of
// messages.
func TestCommandsAreHandledWhileKeysAreRead(t *testing.T) {
	b, c := keyedBench(t)
	b.publishMany('a', (takeRounds+2)*keyScanMax)
	b.publishAll(keyedOf("b"))
	r := b.join(c)
	take := func() (got string) {
		if _, err := r.Take(b.now, 1, func(d *Delivery) error { got = string(d.Body); return nil }); err != nil {
			t.Fatal(err)
		}
		return got
	}
	want(t, "first", take(), "a")
	woken := r.wakes
	want(t, "while keys are read", take(), "")
	if r.wakes == woken {
		t.Error("the consumer does not ask again")
	}
	want(t, "then", take(), "b")
	woken = r.wakes
	if got := take(); got != "" || r.wakes != woken {
		t.Errorf("got %q, woken %d times though there is nothing", got, r.wakes-woken)
	}
}

// TestConsumerWaitingForKeysIsWoken: another consumer read the keys, took the only deliverable message,
// and stopped before this one looked.
func TestConsumerWaitingForKeysIsWoken(t *testing.T) {
	b, c := keyedBench(t)
	b.publishMany('a', keyScanMax)
	b.publishAll(keyedOf("b"))
	first, second := b.join(c), b.join(c)
	c.keys.reading = true // by the first
	if _, err := c.keys.learn(second.Consumer, 1, 9); err != nil {
		t.Fatal(err)
	}
	c.keys.reading = false
	want(t, "the first", first.take(1, b.now), "a")
	second.wakes = 0
	if second.Consumer.take(b.now, 1); len(second.taken) > 0 || second.wakes == 0 {
		t.Errorf("the second has %v, woken %d times", second.taken, second.wakes)
	}
	want(t, "the second", second.take(1, b.now), "b")
}

// TestFullConsumerLeavesKeysToAnother: the first consumer was to read the keys, and the other
// relied on it.
func TestFullConsumerLeavesKeysToAnother(t *testing.T) {
	b, c := keyedBench(t, "a")
	first, second := b.join(c), b.join(c)
	c.keys.reading = true
	want(t, "while keys are read", first.take(1, b.now), "")
	c.keys.reading = false
	if second.Consumer.take(b.now, 1); first.wakes > 0 || second.wakes == 0 {
		t.Fatalf("woken: the first %d times, the second %d", first.wakes, second.wakes)
	}
	if second.Pass(); first.wakes == 0 {
		t.Error("no consumer reads keys")
	}
}

// TestTakeOfZeroReadsKeys: a Take of no messages asks whether there are any. If it left keys unread,
// it would be woken for them repeatedly.
func TestTakeOfZeroReadsKeys(t *testing.T) {
	b, c := keyedBench(t, "a")
	first, second := b.join(c), b.join(c)
	want(t, "the first", first.take(1, b.now), "a")
	b.publishAll(keyedOf("a"))
	for range 9 {
		second.wakes = 0
		if n, err := second.Take(b.now, 0, nil); n > 0 || err != nil {
			t.Fatalf("took %d, %v", n, err)
		}
		if second.wakes == 0 {
			return
		}
	}
	t.Error("it is woken each time, though nothing may go")
}

// TestPausedChannelReadsNoKeys: nor do consumers ask for them repeatedly.
func TestPausedChannelReadsNoKeys(t *testing.T) {
	b, c := keyedBench(t, "a")
	c.Configure(ChannelOptions{Order: policy.ByKey, Paused: true})
	r := b.join(c)
	want(t, "while it is paused", r.take(1, b.now), "")
	if r.wakes > 0 || c.keys.read != nil {
		t.Errorf("woken %d times; keys were read: %v", r.wakes, c.keys.read != nil)
	}
	c.Configure(ChannelOptions{Order: policy.ByKey})
	want(t, "then", r.take(1, b.now), "a")
}

// TestKeysHoldNothingWithoutConsumer: once consumers have left, or the channel has another
// order, or is deleted.
func TestKeysHoldNothingWithoutConsumer(t *testing.T) {
	for name, end := range map[string]func(*Channel, *reader){
		"left":    func(_ *Channel, r *reader) { r.Leave() },
		"closed":  func(c *Channel, r *reader) { c.close(failure.ChannelNotFound) },
		"altered": func(c *Channel, _ *reader) { c.Configure(ChannelOptions{}) },
	} {
		m := limit.NewMemory(64 << 20)
		b := newPaidBench(t, m, -1)
		c, err := b.p.AddChannel("c", 1, ChannelOptions{Order: policy.ByKey})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			b.publishMany(byte('a'+i), keyScanMax)
		}
		r := b.join(c)
		want(t, name, r.take(1, b.now), "a")
		r.at.Release()
		if m.Usage().Uses[limit.ReadAhead] == 0 {
			t.Fatalf("%s: nothing is held to read keys", name)
		}
		end(c, r)
		if held := m.Usage().Uses[limit.ReadAhead]; held != 0 {
			t.Errorf("%s: %d bytes are held", name, held)
		}
	}
}

// TestDamagedKeysAreLeftToIntactReplica: a damaged message counts as one without a key
// only if no other replica has it.
func TestDamagedKeysAreLeftToIntactReplica(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		b, _ := keyedBench(t)
		for _, body := range []string{"a1", "a, which is damaged", "b1"} {
			b.publishAll(keyedOf(body))
		}
		if err := errors.Join(b.p.Close(errDeposed), b.log.Close()); err != nil {
			t.Fatal(err)
		}
		b.spoil("a, which is damaged")
		b.open()
		b.p.o.Elsewhere = func(*commitlog.CorruptionError) bool { return elsewhere }
		c, err := b.p.AddChannel("c", 1, ChannelOptions{Order: policy.ByKey})
		if err != nil {
			t.Fatal(err)
		}
		r := b.join(c)
		got := r.take(9, b.now)
		if len(b.lost) == 0 || b.lost[0].From != 1 {
			t.Fatalf("damage %v was reported", b.lost)
		}
		if !elsewhere {
			want(t, "where no replica has it", got, "a1 b1")
			continue
		}
		want(t, "where others have it", got, "a1")
		var scanned seq.Offset
		c.mu.Lock()
		scanned, _ = c.state.Keyed().Unknown(1, b.log.End())
		c.mu.Unlock()
		if r.wakes = 0; r.take(9, b.now) != "" || r.wakes > 0 || scanned != 1 || !b.p.Gate.suspended.Load() {
			t.Errorf("keys are known up to %d, woken %d times, suspended %v", scanned, r.wakes, b.p.Gate.suspended.Load())
		}
	}
}

// TestConsumersReadKeysInTurn is for the race detector.
func TestConsumersReadKeysInTurn(t *testing.T) {
	b, c := keyedBench(t)
	const keys = 26
	for i := range keys {
		b.publishMany(byte('a'+i), 4*keyScanMax)
	}
	var mu sync.Mutex
	var got strings.Builder
	var all sync.WaitGroup
	for range 3 {
		k, err := c.Join(ConsumerOptions{Timeout: time.Minute, Wake: func() {}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for range 100 {
				_, err := k.Take(b.now, 50, func(d *Delivery) error {
					mu.Lock()
					defer mu.Unlock()
					got.Write(d.Body)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got.WriteString(strings.ReplaceAll(b.join(c).take(keys, b.now), " ", ""))
	if n := len(got.String()); n != keys {
		t.Errorf("the consumers got %s", fmt.Sprint(n, " of ", keys))
	}
}

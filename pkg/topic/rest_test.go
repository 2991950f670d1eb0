package topic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/commitlog"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/policy"
	"github.com/brokerd/brokerd/pkg/seq"
)

// newPaidBench returns a partition whose consumers pay for what they read.
func newPaidBench(t *testing.T, m *limit.Memory, tail int) *bench {
	b := newBench(t)
	b.o.TailBytes, b.o.Cache = tail, commitlog.NewCache(m)
	b.restart()
	return b
}

// publishBulky publishes messages of 100 KiB as one batch. Their first words are their
// numbers.
func (b *bench) publishBulky(from, count int) {
	bodies := make([]string, count)
	for i := range bodies {
		bodies[i] = fmt.Sprintf("%04d", from+i) + strings.Repeat("x", 100<<10)
	}
	b.publish(bodies...)
}

func TestConsumerHoldsNoLargeBatchBetweenTwoTakes(t *testing.T) {
	for _, tail := range []int{-1, 64 << 20} {
		m := limit.NewMemory(64 << 20)
		b := newPaidBench(t, m, tail)
		c := b.channel("c", 1)
		r := b.join(c)
		b.publishBulky(0, 8)
		for i := range 8 {
			if got := r.take(1, t0); !strings.HasPrefix(got, fmt.Sprintf("%04d", i)) {
				t.Fatalf("message %d: %.4q", i, got)
			}
			if r.at.Batch().Size() != 0 {
				t.Errorf("a batch of %d bytes is held", r.at.Batch().Size())
			}
			if got := m.Usage().Uses[limit.Batches]; got != 0 {
				t.Errorf("%d bytes are charged between two takes", got)
			}
		}
		r.Leave()
		if got := m.Usage().Uses[limit.ReadAhead]; got != 0 {
			t.Errorf("%d bytes are charged of a consumer that has left", got)
		}
	}
}

// TestIdleConsumerFreesLargeBatch: a consumer that waits for its client pays for no memory, and must not keep any
// reachable either. The message that it read last points into the batch.
func TestIdleConsumerFreesLargeBatch(t *testing.T) {
	b := newBench(t)
	b.o.TailBytes = -1
	b.restart()
	c := b.channel("c", 1)
	c.Configure(ChannelOptions{})
	RetriesOf(c).SetPolicy(policy.Policy{MaxAttempts: 1, OnExhausted: policy.Drop}, nil)
	b.p.o.Exhausted = func(*Channel) {}
	r, d := b.join(c), RetriesOf(c).NewDisposer()
	b.publishBulky(0, 8)
	var read weak.Pointer[byte]
	freed := func(whose string) {
		t.Helper()
		for range 2 {
			runtime.GC()
		}
		if read.Value() != nil {
			t.Errorf("the batch of %s is reachable after it has been read", whose)
		}
	}
	keep := func(m *Delivery) { read = weak.Make(&m.Body[0]) }
	if n, err := r.Take(b.now, 1, func(m *Delivery) error { keep(m); return nil }); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	freed("a consumer")
	r.requeue(b.now, 0, "")
	if n, err := d.Take(b.now, 1, func(e *Exhausted) error { keep(&e.Delivery); return nil }); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	freed("a disposer")
	runtime.KeepAlive(r)
	runtime.KeepAlive(d)
}

// TestConsumerReturnsToBatchByOffset has a consumer that paused in the middle of a large batch
// return to its first message from the previous batch, which is kept. The position where it paused
// does not apply to that batch.
func TestConsumerReturnsToBatchByOffset(t *testing.T) {
	b := newPaidBench(t, limit.NewMemory(64<<20), -1)
	b.publishBulky(0, 1)
	b.publishBulky(1, 4)
	c := b.channel("c", 0)
	r, other := b.join(c), b.join(c)
	takes := func(r *reader, numbers ...int) {
		t.Helper()
		for _, n := range numbers {
			if got := r.take(1, t0); !strings.HasPrefix(got, fmt.Sprintf("%04d", n)) {
				t.Fatalf("message %d: %.4q", n, got)
			}
		}
	}
	takes(r, 0, 1, 2)
	takes(other, 3, 4)
	for o := range seq.Offset(2) {
		if err := r.Requeue(o, t0, 0); err != nil {
			t.Fatal(err)
		}
	}
	takes(r, 0, 1)
}

func TestIdleConsumerMissesNothing(t *testing.T) {
	rng := testrand.New(t)
	for _, budget := range []int64{64 << 20, 4 << 20, 0} {
		for _, tail := range []int{-1, 64 << 20} {
			b := newPaidBench(t, limit.NewMemory(budget), tail)
			r := b.join(b.channel("c", 1))
			const all = 12
			for n := 0; n < all; {
				count := min(rng.IntN(5)+1, all-n) // some batches are small enough to be kept
				b.publishBulky(n, count)
				n += count
			}
			r.Leave()
			takeAtRandom(t, rng, b.join(b.p.Channel("c")), all)
		}
	}
}

// takeAtRandom takes messages, which have their offsets as their numbers, a few at a time,
// and finishes some and requeues others until all are finished.
func takeAtRandom(t *testing.T, rng *rand.Rand, r *reader, all int) {
	t.Helper()
	full := errors.New("full")
	for finished := 0; finished < all; {
		if rng.IntN(4) == 0 {
			r.at.Release() // as when there is nothing to deliver for a while
		}
		var taken []seq.Offset
		room := rng.IntN(4)
		took, err := r.Take(t0, rng.IntN(7)+1, func(d *Delivery) error {
			if room--; room < 0 {
				return full
			}
			if want := fmt.Sprintf("%04d", d.ID.Offset()); string(d.Body[:4]) != want {
				t.Fatalf("message %s has the body of %s", want, d.Body[:4])
			}
			taken = append(taken, d.ID.Offset())
			return nil
		})
		if err != nil && !errors.Is(err, full) || err == nil && took == 0 {
			t.Fatalf("took %d: %v", took, err)
		}
		for _, o := range taken {
			if rng.IntN(2) == 0 {
				err = r.Requeue(o, t0, 0)
			} else {
				err = r.Finish(o)
				finished++
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestConsumerRetriesWithoutBatchMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 8 << 20
		m := limit.NewMemory(budget)
		b := newPaidBench(t, m, -1)
		r := b.join(b.channel("c", 1))
		b.publishBulky(0, 5)
		others := m.Share(limit.Batches)
		if !others.Try(budget / 4) {
			t.Fatal("the budget is not empty")
		}
		r.wakes = 0
		began := time.Now()
		if got := r.take(5, t0); got != "" {
			t.Fatalf("%.4q was taken", got)
		}
		if waited := time.Since(began); waited != limit.MemoryWait || r.wakes == 0 || r.InFlight() != 0 {
			t.Errorf("after %v, woken %d times, %d in flight", waited, r.wakes, r.InFlight())
		}
		others.Close()
		if got := r.take(1, t0); !strings.HasPrefix(got, "0000") {
			t.Errorf("%.4q was taken", got)
		}
	})
}

package channel

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/brokerd/brokerd/pkg/seq"
)

func TestIdleStateIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(State{}); n > 312 {
		t.Errorf("a State takes %d bytes", n)
	}
	s := New(0, false)
	s.Take(time.Unix(1, 0), 1, time.Minute, 1, 10, nil)
	if err := s.Finish(0, 1); err != nil {
		t.Fatal(err)
	}
	s.Trim()
	if s.ledger.t != nil {
		t.Error("Trim keeps what is not needed")
	}
}

const benchWindow = 2500

// benchFinish takes and finishes messages with 2,500 in flight. pick chooses the one to finish
// next.
func benchFinish(b *testing.B, pick func(i int) int) {
	s, now := New(0, false), time.Unix(1000, 0)
	window := s.Take(now, 1, time.Minute, benchWindow, 1<<40, nil)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now = now.Add(time.Microsecond)
		at := pick(i)
		if err := s.Finish(window[at].Offset, 1); err != nil {
			b.Fatal(err)
		}
		s.Take(now, 1, time.Minute, 1, 1<<40, window[at:at])
		s.NextEvent()
	}
}

func BenchmarkTakeFinishInOrder(b *testing.B) {
	benchFinish(b, func(i int) int { return i % benchWindow })
}

func BenchmarkTakeFinishAtRandom(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	benchFinish(b, func(int) int { return rng.IntN(benchWindow) })
}

// BenchmarkTakeFinishAmongDeferred takes and finishes messages while a million
// others are deferred.
func BenchmarkTakeFinishAmongDeferred(b *testing.B) {
	s, now := New(0, false), time.Unix(1000, 0)
	rng := rand.New(rand.NewPCG(1, 1))
	const end = 1_000_000
	for o := range seq.Offset(end) {
		s.Defer(o, now, time.Hour+time.Duration(rng.Int64N(1e15)))
	}
	var out []Delivery
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Microsecond)
		out = s.Take(now, 1, time.Minute, 1, 1<<40, out[:0])
		s.NextEvent()
		if err := s.Finish(out[0].Offset, 1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDeferAndDeliver takes each message, defers it, and delivers it when it
// is due, with 100,000 deferred at any time.
func BenchmarkDeferAndDeliver(b *testing.B) {
	s, now := New(0, false), time.Unix(1000, 0)
	rng := rand.New(rand.NewPCG(1, 1))
	var out []Delivery
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		for _, d := range s.Take(now, 1, time.Minute, 2, s.View().Cursor()+1, out[:0]) {
			var err error
			if d.Attempts == 1 {
				err = s.Requeue(d.Offset, 1, now, time.Duration(rng.Int64N(200))*time.Second)
			} else {
				err = s.Finish(d.Offset, 1)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkExpire(b *testing.B) {
	s, now := New(0, false), time.Unix(1000, 0)
	var out []Delivery
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		if s.Expire(now, nil) == 0 || len(out) > 0 {
			out = s.Take(now, 1, time.Second, benchWindow, benchWindow, out[:0])
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchWindow, "ns/message")
}

// Package measure contains what a benchmark counts: messages, latencies, the schedule of a load, and the marks
// by which a consumer recognizes the messages of a run.
package measure

import (
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// MinBody is the minimum size of a body that contains the time and the run.
const MinBody = 16

// Counts are the results of one connection.
type Counts struct {
	Messages    int64
	Failed      int64
	Redelivered int64
	Bytes       int64 // of the bodies
}

// Add adds the counts of another connection.
func (c *Counts) Add(d Counts) {
	c.Messages += d.Messages
	c.Failed += d.Failed
	c.Redelivered += d.Redelivered
	c.Bytes += d.Bytes
}

// Histogram counts latencies from 1 µs to a minute, to three digits. It is not safe for concurrent
// use.
type Histogram struct{ h *hdrhistogram.Histogram }

// NewHistogram returns an empty histogram.
func NewHistogram() Histogram {
	return Histogram{hdrhistogram.New(int64(time.Microsecond), int64(time.Minute), 3)}
}

// Record counts a latency.
func (h Histogram) Record(d time.Duration) {
	_ = h.h.RecordValue(min(max(int64(d), int64(time.Microsecond)), int64(time.Minute))) // the value is within the bounds
}

// Merge adds the latencies of another histogram.
func (h Histogram) Merge(other Histogram) { h.h.Merge(other.h) }

// Percentiles summarize latencies.
type Percentiles struct {
	P50  time.Duration `json:"p50_ns"`
	P90  time.Duration `json:"p90_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`
	Max  time.Duration `json:"max_ns"`
	Mean time.Duration `json:"mean_ns"`
}

// Percentiles returns nil if nothing was recorded.
func (h Histogram) Percentiles() *Percentiles {
	if h.h.TotalCount() == 0 {
		return nil
	}
	at := func(p float64) time.Duration { return time.Duration(h.h.ValueAtPercentile(p)) }
	return &Percentiles{at(50), at(90), at(99), at(99.9), time.Duration(h.h.Max()), time.Duration(h.h.Mean())}
}

// Budget distributes the messages of a run among its producers and, with a rate, the time at which
// each is due. It is safe for concurrent use.
type Budget struct {
	start   time.Time
	each    time.Duration // interval between messages; 0: no rate
	limit   int64         // 0: none
	claimed atomic.Int64
}

// NewBudget returns the budget of a run that starts at a time, of messages in total (0: no limit) and a rate per
// second (0: none).
func NewBudget(start time.Time, messages int64, rate float64) *Budget {
	b := &Budget{start: start, limit: messages}
	if rate > 0 {
		b.each = time.Duration(float64(time.Second) / rate)
	}
	return b
}

// Claim reserves up to n messages and returns when they are due, the zero time without a rate. It
// returns 0 when there are no more.
func (b *Budget) Claim(n int64) (int64, time.Time) {
	first := b.claimed.Add(n) - n
	if b.limit > 0 {
		n = min(n, b.limit-first)
	}
	if n <= 0 {
		return 0, time.Time{}
	}
	if b.each == 0 {
		return n, time.Time{}
	}
	return n, b.start.Add(time.Duration(first) * b.each)
}

// Stamp writes the run and the time into bodies of at least MinBody bytes. The zero Stamp writes nothing.
type Stamp struct {
	run  uint64 // 0: none
	base time.Time
}

// NewStamp returns the stamp of a new run.
func NewStamp() Stamp { return Stamp{rand.Uint64() | 1, time.Now()} }

// On reports whether the stamp marks bodies.
func (s Stamp) On() bool { return s.run != 0 }

// Put writes 8 bytes of the run and 8 of the time since its start.
func (s Stamp) Put(body []byte, at time.Time) {
	if s.run != 0 {
		binary.BigEndian.PutUint64(body, s.run)
		binary.BigEndian.PutUint64(body[8:], uint64(at.Sub(s.base)))
	}
}

// Get returns the time in a body, if it is of this run.
func (s Stamp) Get(body []byte) (time.Time, bool) {
	if s.run == 0 || len(body) < MinBody || binary.BigEndian.Uint64(body) != s.run {
		return time.Time{}, false
	}
	return s.base.Add(time.Duration(binary.BigEndian.Uint64(body[8:]))), true
}

// Throughput counts messages. Bytes are those of the bodies.
type Throughput struct {
	Messages          int64   `json:"messages"`
	Failed            int64   `json:"failed"`
	Redelivered       int64   `json:"redelivered"`
	Bytes             int64   `json:"bytes"`
	Seconds           float64 `json:"seconds"`
	MessagesPerSecond float64 `json:"messages_per_second"`
	BytesPerSecond    float64 `json:"bytes_per_second"`
}

// NewThroughput returns the throughput of counts in a time.
func NewThroughput(c Counts, took time.Duration) *Throughput {
	t := &Throughput{Messages: c.Messages, Failed: c.Failed, Redelivered: c.Redelivered, Bytes: c.Bytes, Seconds: took.Seconds()}
	if took > 0 {
		t.MessagesPerSecond = float64(c.Messages) / took.Seconds()
		t.BytesPerSecond = float64(c.Bytes) / took.Seconds()
	}
	return t
}

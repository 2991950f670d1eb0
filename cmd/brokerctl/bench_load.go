package main

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/client"
)

// counts are the results of one connection.
type counts struct {
	messages    int64
	failed      int64
	redelivered int64
	bytes       int64
}

func (c *counts) add(d counts) {
	c.messages += d.messages
	c.failed += d.failed
	c.redelivered += d.redelivered
	c.bytes += d.bytes
}

// histogram counts latencies from 1 µs to a minute, to three digits. It is not safe for concurrent
// use.
type histogram struct{ h *hdrhistogram.Histogram }

func newHistogram() histogram {
	return histogram{hdrhistogram.New(int64(time.Microsecond), int64(time.Minute), 3)}
}

func (h histogram) record(d time.Duration) {
	_ = h.h.RecordValue(min(max(int64(d), int64(time.Microsecond)), int64(time.Minute))) // the value is within the bounds
}

func (h histogram) merge(other histogram) { h.h.Merge(other.h) }

// percentiles summarize latencies, in nanoseconds.
type percentiles struct {
	P50  time.Duration `json:"p50_ns"`
	P90  time.Duration `json:"p90_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`
	Max  time.Duration `json:"max_ns"`
	Mean time.Duration `json:"mean_ns"`
}

// percentiles returns nil if nothing was recorded.
func (h histogram) percentiles() *percentiles {
	if h.h.TotalCount() == 0 {
		return nil
	}
	at := func(p float64) time.Duration { return time.Duration(h.h.ValueAtPercentile(p)) }
	return &percentiles{at(50), at(90), at(99), at(99.9), time.Duration(h.h.Max()), time.Duration(h.h.Mean())}
}

// budget distributes the messages of a run among its producers and, with a rate, the time at which
// each is due.
type budget struct {
	start   time.Time
	each    time.Duration // interval between messages; 0: no rate
	limit   int64         // 0: none
	claimed atomic.Int64
}

func newBudget(o loadOptions, start time.Time) *budget {
	b := &budget{start: start, limit: o.messages}
	if o.duration > 0 {
		b.limit = 0
	}
	if o.rate > 0 {
		b.each = time.Duration(float64(time.Second) / o.rate)
	}
	return b
}

// claim reserves up to n messages and returns when they are due, the zero time without a rate. It
// returns 0 when there are no more.
func (b *budget) claim(n int64) (int64, time.Time) {
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

// producer publishes with its own client, which finds the leaders and reconnects to other nodes.
// Latency is measured from when a batch was due, so that delays caused by a slow answer are
// included.
type producer struct {
	load   *load
	client *client.Client
	free   chan [][]byte // free batches, as many as may be unanswered

	mu     sync.Mutex // guards what follows
	acks   histogram
	counts counts
	err    error // the first that was answered
}

// run publishes until the budget or the context ends, or no broker is reachable, and waits for the
// answers.
func (p *producer) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var answers sync.WaitGroup
	defer answers.Wait()
	for ctx.Err() == nil {
		n, due := p.load.budget.claim(int64(p.load.o.batch))
		if n == 0 {
			return
		}
		if due.IsZero() {
			due = time.Now()
		} else if wait := time.Until(due); wait > 0 {
			beat.Pause(ctx, wait)
		}
		var bodies [][]byte
		select {
		case bodies = <-p.free:
		case <-ctx.Done():
			return
		}
		for _, b := range bodies[:n] {
			p.load.stamp.put(b, due)
		}
		answers.Add(1)
		done := func(err error) {
			p.answered(n, due, err)
			if errors.Is(err, client.ErrUnreachable) {
				stop() // the timeout has passed
			}
			p.free <- bodies
			answers.Done()
		}
		if err := p.client.SendAsync(ctx, client.Outgoing{Topic: p.load.target.topic, Bodies: bodies[:n]}, done); err != nil {
			done(err)
			return // the run has ended
		}
	}
}

// answered counts the answer to a batch.
func (p *producer) answered(n int64, due time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.counts.failed += n
		if p.err == nil {
			p.err = err
		}
		return
	}
	p.acks.record(time.Since(due))
	p.counts.messages += n
	p.counts.bytes += n * int64(p.load.o.size)
}

// bodies creates a batch of incompressible bodies.
func (l *load) bodies() [][]byte {
	source := rand.New(rand.NewPCG(1, 2)) // deterministic
	bodies := make([][]byte, l.o.batch)
	for i := range bodies {
		bodies[i] = make([]byte, l.o.size)
		for j := range bodies[i] {
			bodies[i][j] = byte(source.Uint32())
		}
	}
	return bodies
}

// stamp writes the run and the time into bodies. The zero stamp writes nothing.
type stamp struct {
	run  uint64 // 0: none
	base time.Time
}

func newStamp() stamp { return stamp{rand.Uint64() | 1, time.Now()} }

// put writes 8 bytes of the run and 8 of the time since its start.
func (s stamp) put(body []byte, at time.Time) {
	if s.run != 0 {
		binary.BigEndian.PutUint64(body, s.run)
		binary.BigEndian.PutUint64(body[8:], uint64(at.Sub(s.base)))
	}
}

// get returns the time in a body, if it is of this run.
func (s stamp) get(body []byte) (time.Time, bool) {
	if s.run == 0 || len(body) < minE2EBody || binary.BigEndian.Uint64(body) != s.run {
		return time.Time{}, false
	}
	return s.base.Add(time.Duration(binary.BigEndian.Uint64(body[8:]))), true
}

// load publishes on several connections.
type load struct {
	target *nsqTarget
	o      loadOptions
	stamp  stamp

	producers []*producer
	budget    *budget
}

// open creates the clients.
func (l *load) open(ctx context.Context) error {
	at, err := l.target.places(ctx)
	if err != nil {
		return err
	}
	for range l.o.producers {
		p := &producer{load: l, acks: newHistogram(), free: make(chan [][]byte, l.o.window)}
		if p.client, err = l.target.newClient(at, &linkState{}); err != nil {
			l.close(ctx)
			return err
		}
		for range l.o.window {
			p.free <- l.bodies()
		}
		l.producers = append(l.producers, p)
	}
	return nil
}

// close closes the clients, when nothing is in progress.
func (l *load) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	for _, p := range l.producers {
		_ = p.client.Close(ctx) // only disconnects
	}
}

// run publishes with every client and returns the sums. The clients are closed.
func (l *load) run(ctx context.Context) (counts, histogram, time.Duration, error) {
	if l.o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.o.duration)
		defer cancel()
	}
	start := time.Now()
	l.budget = newBudget(l.o, start)
	var publishing sync.WaitGroup
	for _, p := range l.producers {
		publishing.Go(func() { p.run(ctx) })
	}
	publishing.Wait()
	took := time.Since(start)
	l.close(ctx)

	var total counts
	var firstErr error
	all := newHistogram()
	for _, p := range l.producers {
		total.add(p.counts)
		all.merge(p.acks)
		if firstErr == nil {
			firstErr = p.err
		}
	}
	return total, all, took, firstErr
}

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/internal/measure"
	"github.com/brokerd/brokerd/pkg/client"
)

// producer publishes with its own client, which finds the leaders and reconnects to other nodes.
// Latency is measured from when a batch was due, so that delays caused by a slow answer are
// included.
type producer struct {
	load   *load
	client *client.Client
	free   chan [][]byte // free batches, as many as may be unanswered

	mu     sync.Mutex // guards what follows
	acks   measure.Histogram
	counts measure.Counts
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
		n, due := p.load.budget.Claim(int64(p.load.o.batch))
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
			p.load.stamp.Put(b, due)
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
		p.counts.Failed += n
		if p.err == nil {
			p.err = err
		}
		return
	}
	p.acks.Record(time.Since(due))
	p.counts.Messages += n
	p.counts.Bytes += n * int64(p.load.o.size)
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

// load publishes on several connections.
type load struct {
	target *nsqTarget
	o      loadOptions
	stamp  measure.Stamp

	producers []*producer
	budget    *measure.Budget
}

// open creates the clients.
func (l *load) open(ctx context.Context) error {
	at, err := l.target.places(ctx)
	if err != nil {
		return err
	}
	for range l.o.producers {
		p := &producer{load: l, acks: measure.NewHistogram(), free: make(chan [][]byte, l.o.window)}
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
func (l *load) run(ctx context.Context) (measure.Counts, measure.Histogram, time.Duration, error) {
	if l.o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.o.duration)
		defer cancel()
	}
	start := time.Now()
	l.budget = measure.NewBudget(start, l.o.most(), l.o.rate)
	var publishing sync.WaitGroup
	for _, p := range l.producers {
		publishing.Go(func() { p.run(ctx) })
	}
	publishing.Wait()
	took := time.Since(start)
	l.close(ctx)

	var total measure.Counts
	var firstErr error
	all := measure.NewHistogram()
	for _, p := range l.producers {
		total.Add(p.counts)
		all.Merge(p.acks)
		if firstErr == nil {
			firstErr = p.err
		}
	}
	return total, all, took, firstErr
}

package workload

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/internal/measure"
	"github.com/brokerd/brokerd/internal/nsqlink"
	"github.com/brokerd/brokerd/pkg/client"
)

// producer publishes with its own client, which finds the leaders and reconnects to other nodes.
// Latency is measured from when a batch was due, so that delays caused by a slow answer are
// included.
type producer struct {
	load   *Load
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
		n, due := p.load.budget.Claim(int64(p.load.o.Batch))
		if n == 0 {
			return
		}
		if due.IsZero() {
			due = time.Now()
		} else if wait := time.Until(due); wait > 0 && !beat.Pause(ctx, wait) {
			return
		}
		var bodies [][]byte
		select {
		case bodies = <-p.free:
		case <-ctx.Done():
			return
		}
		for _, b := range bodies[:n] {
			p.load.o.Stamp.Put(b, due)
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
		if err := p.client.SendAsync(ctx, client.Outgoing{Topic: p.load.topic, Bodies: bodies[:n]}, done); err != nil {
			if !errors.Is(err, context.Cause(ctx)) { // a batch that is not sent because the run is over has not failed
				p.answered(n, due, err)
			}
			answers.Done()
			return
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
	p.counts.Bytes += n * p.load.o.Size
}

// LoadOptions define what is published.
type LoadOptions struct {
	Messages  int64         // 0: no limit
	Duration  time.Duration // 0: no limit
	Size      int64         // of a message
	Batch     int           // messages in a batch
	Window    int           // unanswered batches of a producer
	Producers int
	Rate      float64       // messages per second of all producers; 0: no limit
	Stamp     measure.Stamp // zero: messages are not stamped
}

// Load publishes over several connections.
type Load struct {
	topic     string
	o         LoadOptions
	producers []*producer
	budget    *measure.Budget
}

// OpenLoad creates the clients of a load.
func OpenLoad(ctx context.Context, topic *nsqlink.Topic, o LoadOptions) (*Load, error) {
	clients, err := topic.Clients(ctx, o.Producers)
	if err != nil {
		return nil, err
	}
	l := &Load{topic: topic.Name, o: o}
	for _, c := range clients {
		p := &producer{load: l, client: c, acks: measure.NewHistogram(), free: make(chan [][]byte, o.Window)}
		for range o.Window {
			p.free <- l.bodies()
		}
		l.producers = append(l.producers, p)
	}
	return l, nil
}

// bodies creates a batch of incompressible bodies.
func (l *Load) bodies() [][]byte {
	source := rand.New(rand.NewPCG(1, 2)) // deterministic
	bodies := make([][]byte, l.o.Batch)
	for i := range bodies {
		bodies[i] = make([]byte, l.o.Size)
		for j := range bodies[i] {
			bodies[i][j] = byte(source.Uint32())
		}
	}
	return bodies
}

// close closes the clients, when nothing is in progress.
func (l *Load) close(ctx context.Context) {
	clients := make([]*client.Client, len(l.producers))
	for i, p := range l.producers {
		clients[i] = p.client
	}
	nsqlink.CloseAll(ctx, clients)
}

// Run publishes with every client and returns the sums, and the first error. The clients are closed.
func (l *Load) Run(ctx context.Context) (Result, error) {
	if l.o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.o.Duration)
		defer cancel()
	}
	start := time.Now()
	l.budget = measure.NewBudget(start, l.o.Messages, l.o.Rate)
	var publishing sync.WaitGroup
	for _, p := range l.producers {
		publishing.Go(func() { p.run(ctx) })
	}
	publishing.Wait()
	total := Result{Took: time.Since(start), Latency: measure.NewHistogram()}
	l.close(ctx)

	var failed error
	for _, p := range l.producers {
		total.Counts.Add(p.counts)
		total.Latency.Merge(p.acks)
		if failed == nil {
			failed = p.err
		}
	}
	return total, failed
}

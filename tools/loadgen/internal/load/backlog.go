package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/tools/loadgen/internal/body"
	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
)

// Backlog fills the topic, then measures -drainers consumers emptying it.
func Backlog(ctx context.Context, d broker.Driver, o Options, r *Result) {
	*r = Result{Workload: "backlog", Size: o.Size, Batch: o.Batch, Window: o.Window}
	o.Group = true
	o.Messages = o.Messages / o.Batch * o.Batch
	withTopic(ctx, d, &o, func() {
		fill(ctx, d, &o, r, func(p *producer) { p.runAsync(nil, o.Window, o.Batch, o.Messages) })
		time.Sleep(o.Settle)
		drain(ctx, d, o, steps.Need(together(ctx, d, o)), r, func(body.Header) {})
	})
}

// fill publishes all messages, with one producer, and expects that they are acknowledged.
func fill(ctx context.Context, d broker.Driver, o *Options, r *Result, publish func(*producer)) {
	p := newProducer(ctx, d, o, 0, new(atomic.Bool))
	t := clock()
	publish(p)
	r.FillPerSec = float64(o.Messages) / (float64(clock()-t) / 1e9)
	p.pub.Close()
	steps.Must(p.failed())
	if r.Published = p.acked.Load(); r.Published != int64(o.Messages) {
		steps.Fail("%d of %d acknowledged", r.Published, o.Messages)
	}
}

// several are consumers that consume one backlog together.
type several []broker.Consumer

// together opens the consumers that consume a backlog together.
func together(ctx context.Context, d broker.Driver, o Options) (several, error) {
	var all several
	for range max(o.Drainers, 1) {
		c, err := d.Consumer(ctx, o.Topic)
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all = append(all, c)
	}
	return all, nil
}

// Run implements broker.Consumer: it calls handle from one goroutine at a time.
func (all several) Run(ctx context.Context, handle func([]byte) error) error {
	if len(all) == 1 {
		return all[0].Run(ctx, handle)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var one sync.Mutex
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, c := range all {
		running.Go(func() {
			errs[i] = c.Run(ctx, func(b []byte) error {
				one.Lock()
				defer one.Unlock()
				return handle(b)
			})
			if errs[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// Close implements broker.Consumer.
func (all several) Close() error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

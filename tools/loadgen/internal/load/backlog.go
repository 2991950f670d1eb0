package load

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/tools/loadgen/internal/body"
	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
)

// Backlog fills the topic, then measures one consumer emptying it.
func Backlog(ctx context.Context, d broker.Driver, o Options) (*Result, error) {
	r := &Result{Workload: "backlog", Size: o.Size, Batch: o.Batch, Window: o.Window}
	o.Group = true
	o.Messages = o.Messages / o.Batch * o.Batch
	n := o.Messages
	err := withTopic(ctx, d, &o, func() error {
		var on atomic.Bool
		p, err := newProducer(ctx, d, &o, 0, &on)
		if err != nil {
			return err
		}
		t := clock()
		p.runAsync(nil, o.Window, o.Batch, n)
		r.FillPerSec = float64(n) / (float64(clock()-t) / 1e9)
		p.pub.Close()
		if err := p.failed(); err != nil {
			return err
		}
		if r.Published = p.acked.Load(); r.Published != int64(n) {
			return fmt.Errorf("%d of %d acknowledged", r.Published, n)
		}
		time.Sleep(o.Settle)

		c, err := d.Consumer(ctx, o.Topic)
		if err != nil {
			return err
		}
		if err := drain(ctx, o, c, r, func(body.Header) {}); err != nil {
			return err
		}
		r.Unacked = backlogAfter(ctx, d, o.Topic)
		return nil
	})
	return r, err
}

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
	n := o.Messages / o.Batch * o.Batch
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

		m, err := startMeters(o.Pids)
		if err != nil {
			return err
		}
		var seen body.Seen
		seen.Add(uint64(n - 1)) // makes room
		seen = body.Seen{}
		t0 := clock()
		var t1 int64
		c, err := d.Consumer(ctx, o.Topic)
		if err != nil {
			return err
		}
		cctx, cancel := context.WithTimeout(ctx, o.Timeout)
		defer cancel()
		err = c.Run(cctx, func(b []byte) error {
			h, err := body.Check(b, o.Size)
			if err != nil {
				return err
			}
			if h.Seq >= uint64(n) {
				return fmt.Errorf("sequence number %d was never sent", h.Seq)
			}
			if seen.Add(h.Seq) && seen.Unique == int64(n) {
				t1 = clock()
				cancel()
			}
			return nil
		})
		if e := m.stop(r, seen.Unique); err == nil {
			err = e
		}
		c.Close()
		if err != nil {
			return err
		}
		if t1 == 0 {
			t1 = clock() // ran out of time: the rate is of what came
		}
		r.rate(seen.Unique, t1-t0)
		r.Received, r.Dups, r.Reordered = seen.Unique, seen.Dups, seen.Order
		r.Lost = int64(n) - seen.Unique
		r.Unacked = backlogAfter(ctx, d, o.Topic)
		return nil
	})
	return r, err
}

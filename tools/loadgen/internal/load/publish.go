package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
	"github.com/brokerd/brokerd/tools/loadgen/internal/proc"
)

// Publish measures publishing alone.
func Publish(ctx context.Context, d broker.Driver, o Options) (*Result, error) {
	r := &Result{Workload: "publish", Size: o.Size, Producers: o.Producers, Sync: o.Sync}
	if !o.Sync {
		r.Batch, r.Window = o.Batch, o.Window
	}
	err := withTopic(ctx, d, &o, func() error {
		var on atomic.Bool
		ps := make([]*producer, o.Producers)
		for i := range ps {
			var err error
			if ps[i], err = newProducer(ctx, d, &o, i, &on); err != nil {
				return err
			}
			defer ps[i].pub.Close()
		}
		total := func() (n int64) {
			for _, p := range ps {
				n += p.acked.Load()
			}
			return n
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for _, p := range ps {
			wg.Go(func() {
				if o.Sync {
					p.runSync(stop)
				} else {
					p.runAsync(stop, o.Window, o.Batch, 0)
				}
			})
		}
		time.Sleep(o.Warmup)
		m, err := startMeters(o.Pids)
		if err != nil {
			return err
		}
		on.Store(true)
		t0, n0 := clock(), total()
		time.Sleep(o.Duration)
		t1, n1 := clock(), total()
		on.Store(false)
		if err := m.stop(r, n1-n0); err != nil {
			return err
		}
		close(stop)
		wg.Wait()
		h := newHist()
		for _, p := range ps {
			if err := p.failed(); err != nil {
				return err
			}
			h.Merge(p.hist)
		}
		if n1 == n0 {
			return errors.New("nothing was acknowledged")
		}
		r.rate(n1-n0, t1-t0)
		r.Published, r.Ack = total(), latency(h)
		if o.Rest > 0 {
			time.Sleep(o.Rest)
			r.RSSAfterMB, err = proc.RSS(o.Pids)
		}
		return err
	})
	return r, err
}

package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
	"github.com/brokerd/brokerd/tools/loadgen/internal/proc"
)

// Publish measures publishing alone.
func Publish(ctx context.Context, d broker.Driver, o Options, r *Result) {
	*r = Result{Workload: "publish", Size: o.Size, Producers: o.Producers, Sync: o.Sync}
	if !o.Sync {
		r.Batch, r.Window = o.Batch, o.Window
	}
	withTopic(ctx, d, &o, func() {
		var on atomic.Bool
		ps := make([]*producer, o.Producers)
		for i := range ps {
			ps[i] = newProducer(ctx, d, &o, i, &on)
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
		m := startMeters(o.Pids)
		on.Store(true)
		t0, n0 := clock(), total()
		time.Sleep(o.Duration)
		t1, n1 := clock(), total()
		on.Store(false)
		steps.Must(m.stop(r, n1-n0))
		close(stop)
		wg.Wait()
		h := newHist()
		for _, p := range ps {
			steps.Must(p.failed())
			h.Merge(p.hist)
		}
		if n1 == n0 {
			steps.Fail("nothing was acknowledged")
		}
		r.rate(n1-n0, t1-t0)
		r.Published, r.Ack = total(), latency(h)
		if o.Rest > 0 {
			time.Sleep(o.Rest)
			r.RSSAfterMB = steps.Need(proc.RSS(o.Pids))
		}
	})
}

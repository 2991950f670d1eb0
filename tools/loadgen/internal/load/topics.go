package load

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
	"github.com/brokerd/brokerd/tools/loadgen/internal/proc"
)

// Topics makes many topics, each with its group, and measures the broker idle
// before and after.
func Topics(ctx context.Context, d broker.Driver, o Options, r *Result) {
	*r = Result{Workload: "topics"}
	idle := func() (rss, cpu float64) {
		m := steps.Need(proc.Start(o.Pids))
		t := clock()
		time.Sleep(o.Duration)
		u, _, err := m.Stop()
		steps.Must(err)
		return u.RSSEndMB, u.CPUSec / (float64(clock()-t) / 1e9)
	}
	r.RSSBeforeMB, r.IdleBeforeCPU = idle()
	name := func(i int) string { return fmt.Sprintf("%s_%d", o.Topic, i) }
	each := func(f func(string) error) error {
		return broker.Each(o.Topics, o.Concurrency, func(i int) error {
			if err := f(name(i)); err != nil {
				return fmt.Errorf("topic %d: %w", i, err)
			}
			return nil
		})
	}
	m := startMeters(o.Pids)
	t := clock()
	err := each(func(n string) error { return d.Create(ctx, n, true) })
	ns := clock() - t
	steps.Must(cmp.Or(err, m.stop(r, int64(o.Topics))))
	r.rate(int64(o.Topics), ns)
	time.Sleep(o.Settle)
	r.RSSAfterMB, r.IdleCPUSec = idle()
	if !o.Keep {
		steps.Must(each(func(n string) error { return d.Delete(ctx, n) }))
	}
}

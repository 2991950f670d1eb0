package load

import (
	"context"
	"fmt"
	"time"

	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
	"github.com/brokerd/brokerd/tools/loadgen/internal/proc"
)

// Topics makes many topics, each with its group, and measures the broker idle
// before and after.
func Topics(ctx context.Context, d broker.Driver, o Options) (*Result, error) {
	r := &Result{Workload: "topics"}
	idle := func() (rss, cpu float64, err error) {
		m, err := proc.Start(o.Pids)
		if err != nil {
			return 0, 0, err
		}
		t := clock()
		time.Sleep(o.Duration)
		u, _, err := m.Stop()
		return u.RSSEndMB, u.CPUSec / (float64(clock()-t) / 1e9), err
	}
	var err error
	if r.RSSBeforeMB, r.IdleBeforeCPU, err = idle(); err != nil {
		return nil, err
	}
	name := func(i int) string { return fmt.Sprintf("%s_%d", o.Topic, i) }
	each := func(f func(string) error) error {
		return broker.Each(o.Topics, o.Concurrency, func(i int) error {
			if err := f(name(i)); err != nil {
				return fmt.Errorf("topic %d: %w", i, err)
			}
			return nil
		})
	}
	m, err := startMeters(o.Pids)
	if err != nil {
		return nil, err
	}
	t := clock()
	err = each(func(n string) error { return d.Create(ctx, n, true) })
	ns := clock() - t
	if e := m.stop(r, int64(o.Topics)); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	r.rate(int64(o.Topics), ns)
	time.Sleep(o.Settle)
	if r.RSSAfterMB, r.IdleCPUSec, err = idle(); err != nil {
		return nil, err
	}
	if !o.Keep {
		err = each(func(n string) error { return d.Delete(ctx, n) })
	}
	return r, err
}

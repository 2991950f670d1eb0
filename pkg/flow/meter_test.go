package flow_test

import (
	"math"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/flow"
)

var began = time.Date(2026, 11, 24, 8, 0, 0, 0, time.UTC)

// run notes totals every flow.Every for a while, at constant rates, and returns the last.
func run(m *flow.Meter, from time.Time, t flow.Totals, in, out float64, long time.Duration) (time.Time, flow.Totals) {
	first := t
	for at := flow.Every; at <= long; at += flow.Every {
		t.In, t.Out = first.In+uint64(in*at.Seconds()), first.Out+uint64(out*at.Seconds())
		t.Waiting = t.In > t.Out
		m.Observe(from.Add(at), t)
	}
	return from.Add(long), t
}

func near(a, b float64) bool { return math.Abs(a-b) <= 0.01*max(1, math.Abs(b)) }

func wantRates(t *testing.T, got flow.Rates, want flow.Rates) {
	t.Helper()
	if !near(got.In, want.In) || !near(got.Out, want.Out) || !near(got.InLong, want.InLong) || !near(got.OutLong, want.OutLong) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestRatesAreThoseOfTheWindow(t *testing.T) {
	var m flow.Meter
	m.Observe(began, flow.Totals{})
	now, totals := run(&m, began, flow.Totals{}, 100, 40, 30*time.Minute)
	wantRates(t, m.Rates(now, totals), flow.Rates{100, 40, 100, 40})
	now, totals = run(&m, now, totals, 0, 200, 2*time.Minute)
	wantRates(t, m.Rates(now, totals), flow.Rates{0, 200, 100 * 13. / 15, (13*40. + 2*200) / 15})
	// It is quiet: the windows run out, and the samples go.
	now, totals = run(&m, now, totals, 0, 0, 3*time.Hour)
	wantRates(t, m.Rates(now, totals), flow.Rates{})
	// Messages that arrive at once count for the whole window, not only for that moment.
	now = now.Add(5 * time.Second)
	totals.In += 600
	m.Observe(now, totals)
	wantRates(t, m.Rates(now, totals), flow.Rates{10, 0, 600. / 900, 0})
}

func TestYoungChannelIsMeasuredSinceItBegan(t *testing.T) {
	var m flow.Meter
	if r := m.Rates(began, flow.Totals{In: 5}); r != (flow.Rates{}) {
		t.Errorf("unmeasured: %+v", r)
	}
	m.Observe(began, flow.Totals{})
	wantRates(t, m.Rates(began.Add(4*time.Second), flow.Totals{In: 400, Out: 100}), flow.Rates{100, 25, 100, 25})
	wantRates(t, m.Rates(began.Add(time.Millisecond), flow.Totals{In: 10}), flow.Rates{10, 0, 10, 0})
	if got := m.Observed(began.Add(time.Minute)); got != time.Minute {
		t.Errorf("observed for %v", got)
	}
}

// Whatever is recorded, a rate is the number that arrived within the window: never negative, and
// never more than arrived within it and the sample before.
func TestRatesOfRandomLoads(t *testing.T) {
	rng := testrand.New(t)
	for range 50 {
		var m flow.Meter
		now, totals := began, flow.Totals{}
		m.Observe(now, totals)
		all := []flow.Totals{totals}
		for range 300 {
			now = now.Add(flow.Every)
			if rng.IntN(3) > 0 {
				totals.In += uint64(rng.IntN(1000))
				totals.Out += uint64(rng.IntN(int(totals.In-totals.Out) + 1))
			}
			totals.Waiting = totals.In > totals.Out
			m.Observe(now, totals)
			all = append(all, totals)
			r := m.Rates(now, totals)
			ago := func(w time.Duration) (flow.Totals, float64) {
				n := min(int(w/flow.Every), len(all)-1)
				return all[len(all)-1-n], (time.Duration(n) * flow.Every).Seconds()
			}
			was, took := ago(flow.Short)
			if !near(r.In, float64(totals.In-was.In)/took) || !near(r.Out, float64(totals.Out-was.Out)/took) {
				t.Fatalf("after %d samples: %+v, want in %v", len(all), r, float64(totals.In-was.In)/took)
			}
			// The long window's samples are a minute apart, with a straight line between.
			was, took = ago(flow.Long + time.Minute)
			if most := float64(totals.In-was.In) / took * 17 / 15; r.InLong > most+1 {
				t.Fatalf("after %d samples: %+v, at most %v", len(all), r, most)
			}
		}
	}
}

func TestDrainsInIsNet(t *testing.T) {
	tests := []struct {
		name  string
		rates flow.Rates
		depth int64
		held  int64
		old   time.Duration
		want  time.Duration
		ever  bool
	}{
		{"nothing is left", flow.Rates{In: 10}, 0, 0, time.Hour, 0, true},
		{"more goes than comes", flow.Rates{In: 10, Out: 30}, 100, 0, time.Hour, 5 * time.Second, true},
		{"as much comes", flow.Rates{In: 10, Out: 10}, 1, 0, time.Hour, 0, false},
		{"it grows", flow.Rates{In: 10, Out: 5}, 1, 0, time.Hour, 0, false},
		{"nothing moves", flow.Rates{}, 1, 0, time.Hour, 0, false},
		{"all but nothing goes", flow.Rates{Out: 1e-12}, math.MaxInt64, 0, time.Hour, 0, false},
		{"some are in flight", flow.Rates{In: 1, Out: 1}, 0, 20, 9 * time.Second, 0, true},
		{"some are held", flow.Rates{In: 100}, 0, 844, 27 * time.Second, 0, false},
		{"all take long", flow.Rates{In: 10, Out: 10}, 0, 300, 30 * time.Second, 30 * time.Second, true},
		{"some are held, and others wait", flow.Rates{In: 10, Out: 30}, 100, 5, time.Hour, 5 * time.Second, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, ever := tt.rates.DrainsIn(tt.depth, tt.held, tt.old); got != tt.want || ever != tt.ever {
				t.Errorf("%v %v, want %v %v", got, ever, tt.want, tt.ever)
			}
		})
	}
}

func TestStalledCountsFromTheLastFinish(t *testing.T) {
	var m flow.Meter
	if m.Stalled(began) != 0 {
		t.Error("stalled though nothing was noted")
	}
	m.Observe(began, flow.Totals{})
	now, totals := run(&m, began, flow.Totals{}, 10, 1, time.Minute)
	if got := m.Stalled(now); got != 0 {
		t.Errorf("while messages are finished: %v", got)
	}
	now, totals = run(&m, now, totals, 10, 0, 10*time.Minute)
	if got := m.Stalled(now); got != 10*time.Minute {
		t.Errorf("%v, want 10m", got)
	}
	totals.Waiting = false // all are in flight, or it is paused
	m.Observe(now.Add(flow.Every), totals)
	if got := m.Stalled(now.Add(flow.Every)); got != 0 {
		t.Errorf("while nothing waits: %v", got)
	}
}

func TestGrows(t *testing.T) {
	tests := []struct {
		name  string
		rates flow.Rates
		depth int64
		want  bool
	}{
		{"grows", flow.Rates{In: 100, Out: 10, InLong: 100, OutLong: 10}, 81_000, true},
		{"is small", flow.Rates{In: 100, Out: 10, InLong: 100, OutLong: 10}, flow.GrowDepth - 1, false},
		{"shrinks by now", flow.Rates{In: 100, Out: 110, InLong: 100, OutLong: 10}, 81_000, false},
		{"has grown by little", flow.Rates{In: 100, Out: 99, InLong: 100, OutLong: 99}, 81_000, false},
		{"shrank for long", flow.Rates{In: 100, Out: 99, InLong: 100, OutLong: 200}, 81_000, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.rates.Grows(tt.depth); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

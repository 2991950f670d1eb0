package beat_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
)

func TestUntil(t *testing.T) {
	at := func(d time.Duration) time.Time { return time.Unix(1000, 0).Add(d) }
	tests := []struct {
		name              string
		now, period, want time.Duration
	}{
		{name: "on a multiple", now: 0, period: 400 * time.Millisecond, want: 400 * time.Millisecond},
		{name: "between two", now: 150 * time.Millisecond, period: 400 * time.Millisecond, want: 250 * time.Millisecond},
		{name: "a little late", now: 403 * time.Millisecond, period: 400 * time.Millisecond, want: 397 * time.Millisecond},
		{name: "a little early", now: 399 * time.Millisecond, period: 400 * time.Millisecond, want: 401 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := beat.Until(at(tt.now), tt.period); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestLoopsOfOnePeriodFireTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		fired := make(chan time.Time, 64)
		for _, late := range []time.Duration{0, 30 * time.Millisecond, 170 * time.Millisecond} {
			go func() {
				time.Sleep(late)
				beat.Every(ctx, 100*time.Millisecond, func() { fired <- time.Now() })
			}()
		}
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		close(fired)
		calls, moments := 0, []time.Time{}
		for at := range fired {
			if calls++; !slices.ContainsFunc(moments, at.Equal) {
				moments = append(moments, at)
			}
		}
		if calls < 25 || len(moments) > 10 {
			t.Errorf("%d calls at %d moments", calls, len(moments))
		}
	})
}

package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// The channel is watched for a second at most, until it moves, or until the request is cancelled.
func TestChannelIsWatchedUntilItMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := orders()
		h := serverOf(t, f).Handler()
		explain := func(ctx context.Context, target string) (w *httptest.ResponseRecorder, e api.Explanation, took time.Duration) {
			t.Helper()
			w = httptest.NewRecorder()
			began := time.Now()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil))
			if w.Code == http.StatusOK {
				if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
					t.Fatal(err)
				}
			}
			return w, e, time.Since(began)
		}
		const bill = "/v1/topics/orders/channels/bill/explain"
		w, e, took := explain(t.Context(), bill)
		if w.Code != http.StatusOK || e.Moving || took != time.Second || e.Ready != 5 || e.Consumers != 2 || len(e.Causes) == 0 {
			t.Errorf("%d %+v after %v", w.Code, e, took)
		}
		time.AfterFunc(250*time.Millisecond, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.stats[0].Channels[0].FinishedTotal++
		})
		if _, e, took = explain(t.Context(), bill); !e.Moving || took != 300*time.Millisecond {
			t.Errorf("%+v after %v", e, took)
		}
		if _, e, took = explain(t.Context(), "/v1/topics/orders/channels/away/explain"); !e.Moving || took != 0 || e.Causes == nil {
			t.Errorf("a channel with nothing: %+v after %v", e, took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 450*time.Millisecond)
		defer cancel()
		if w, _, took = explain(ctx, bill); w.Code == http.StatusOK || took != 450*time.Millisecond {
			t.Errorf("%d after %v, though nobody waits", w.Code, took)
		}
		for _, missing := range []string{"/v1/topics/none/channels/bill/explain", "/v1/topics/orders/channels/none/explain"} {
			if w, _, _ = explain(t.Context(), missing); w.Code != http.StatusNotFound {
				t.Errorf("%s: %d", missing, w.Code)
			}
		}
	})
}

// A channel that finished messages in the last minute is watched until three are to be expected, for five seconds at
// most.
func TestSlowChannelIsWatchedForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := orders()
		h := serverOf(t, f).Handler()
		explain := func(out float64) (e api.Explanation, took time.Duration) {
			t.Helper()
			f.mu.Lock()
			f.stats[0].Channels[0].Rates.Out = out
			f.mu.Unlock()
			w, began := httptest.NewRecorder(), time.Now()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/topics/orders/channels/bill/explain", nil))
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
				t.Fatal(err)
			}
			return e, time.Since(began)
		}
		for _, c := range []struct {
			out    float64
			moving bool
			took   time.Duration
		}{{100, false, time.Second}, {1, false, 3 * time.Second}, {0.25, true, 5 * time.Second}} {
			if e, took := explain(c.out); e.Moving != c.moving || took != c.took || e.OutPerS != c.out {
				t.Errorf("%v/s: %+v after %v, want %v after %v", c.out, e, took, c.moving, c.took)
			}
		}
		time.AfterFunc(2050*time.Millisecond, func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.stats[0].Channels[0].FinishedTotal++
		})
		if e, took := explain(0.5); !e.Moving || took != 2100*time.Millisecond {
			t.Errorf("%+v after %v", e, took)
		}
	})
}

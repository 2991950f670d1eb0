package admin

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/v1"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

// startTimeout is how long a request waits for a starting node before it is answered with an
// error. A node that does not wait for others starts faster, so programs that wait for the first
// response to a ping find it ready.
const startTimeout = time.Second

// Front answers requests from the moment the sockets are bound: the node is alive and not ready,
// until Open provides the handler. With Wait it also reports what the node waits for. It is safe
// for concurrent use.
type Front struct {
	open    atomic.Pointer[http.Handler]
	opened  signal.Signal
	waiting atomic.Pointer[waiting]
}

// Open has h answer from now on.
func (f *Front) Open(h http.Handler) {
	f.open.Store(&h)
	f.opened.Fire()
}

// Wait provides the state of a node that waits for its cluster, until Open.
func (f *Front) Wait(of v1.Waiting) {
	f.waiting.Store(&waiting{of, v1.NewWaiting(of), time.Now()})
}

// await returns the handler once there is one, or nil after startTimeout or the end of ctx.
func (f *Front) await(ctx context.Context) *http.Handler {
	opened := f.opened.Wait()
	if h := f.open.Load(); h != nil {
		return h
	}
	select {
	case <-opened:
	case <-time.After(startTimeout):
	case <-ctx.Done():
	}
	return f.open.Load()
}

// ServeHTTP implements http.Handler. Probes are answered at once; everything else
// waits a moment for a node that is starting.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, known := f.open.Load(), f.waiting.Load()
	if h == nil && !web.IsProbe(r.URL.Path) && !known.answersAtOnce(r, time.Now()) {
		h = f.await(r.Context())
	}
	if h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	if known.serves(r) {
		known.api.Serve(w, r)
		return
	}
	reasons := known.reasons()
	switch path := r.URL.Path; {
	case path == "/livez" || path == "/healthz":
		answerProbe(w, nil)
	case path == "/ping":
		_, _ = w.Write([]byte("OK"))
	case v1.Owns(path):
		w.Header().Set("Retry-After", "1")
		web.WriteJSON(w, http.StatusServiceUnavailable, api.ErrorAnswer{Error: &api.Error{
			Code: failure.Starting, Message: reasons[0].What, Hint: "retry in a moment", Fate: fate.Refused.String(),
		}})
	default:
		w.Header().Set("Retry-After", "1")
		answerProbe(w, reasons)
	}
}

// waiting answers requests to a node that waits for its cluster. nil: no state is known yet.
type waiting struct {
	of    v1.Waiting
	api   *v1.API
	since time.Time
}

// serves reports whether it has an answer to a request.
func (w *waiting) serves(r *http.Request) bool {
	return w != nil && v1.Owns(r.URL.Path) && w.api.Knows(r)
}

// answersAtOnce reports whether to answer a request now: the node has been waiting for
// so long that the request need not wait, too.
func (w *waiting) answersAtOnce(r *http.Request, now time.Time) bool {
	return w.serves(r) && now.Sub(w.since) >= startTimeout
}

// reasons returns why the node does not serve: at least one.
func (w *waiting) reasons() []api.Reason {
	if w != nil {
		if reasons := w.of.Ready(); len(reasons) > 0 {
			return reasons
		}
	}
	return []api.Reason{{Code: string(failure.Starting), Count: 1, What: "loading data from disk and contacting the cluster"}}
}

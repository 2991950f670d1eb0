package admin

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/fate"
)

// startPatience is how long a request waits for a node that is starting before it
// is answered that the node is. One that waits for no others takes less: programs
// that ping until there is an answer, and go on from there, find it ready.
const startPatience = time.Second

// Front answers for a node from the moment its sockets are bound: that it lives
// and is not ready, until Open gives it something to serve. It may be used by
// many goroutines.
type Front struct {
	open   atomic.Pointer[http.Handler]
	opened signal.Signal
}

// Open has h answer from now on.
func (f *Front) Open(h http.Handler) {
	f.open.Store(&h)
	f.opened.Fire()
}

// await returns what is served, once there is something, or nil after
// startPatience or the end of ctx.
func (f *Front) await(ctx context.Context) *http.Handler {
	opened := f.opened.Wait()
	if h := f.open.Load(); h != nil {
		return h
	}
	select {
	case <-opened:
	case <-time.After(startPatience):
	case <-ctx.Done():
	}
	return f.open.Load()
}

// ServeHTTP implements http.Handler. Probes are answered at once; everything else
// waits a moment for a node that is starting.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := f.open.Load()
	if h == nil && !isProbe(r.URL.Path) {
		h = f.await(r.Context())
	}
	if h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	const what = "the node reads what it has on disk and looks for its cluster"
	switch path := r.URL.Path; {
	case path == "/livez" || path == "/healthz":
		answerProbe(w, probe{Reasons: []api.Reason{}})
	case path == "/ping":
		_, _ = w.Write([]byte("OK"))
	case strings.HasPrefix(path, "/v1/"):
		w.Header().Set("Retry-After", "1")
		writeJSON(w, http.StatusServiceUnavailable, api.ErrorAnswer{Error: &api.Error{
			Code: api.CodeStarting, Message: what, Hint: "try again in a moment", Fate: fate.Refused.String(),
		}})
	default:
		w.Header().Set("Retry-After", "1")
		answerProbe(w, probe{Reasons: []api.Reason{{Code: string(api.CodeStarting), Count: 1, What: what}}})
	}
}

func isProbe(path string) bool {
	return path == "/livez" || path == "/healthz" || path == "/readyz" || path == "/startupz"
}

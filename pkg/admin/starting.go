package admin

import (
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/fate"
)

// Front answers for a node from the moment its sockets are bound: that it lives
// and is not ready, until Open gives it something to serve. It may be used by
// many goroutines.
type Front struct{ open atomic.Pointer[http.Handler] }

// Open has h answer from now on.
func (f *Front) Open(h http.Handler) { f.open.Store(&h) }

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := f.open.Load(); h != nil {
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

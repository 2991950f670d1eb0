package admin

import (
	"net/http"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/admin/api"
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
	switch r.URL.Path {
	case "/livez", "/healthz":
		answerProbe(w, probe{Reasons: []api.Reason{}})
	case "/ping":
		_, _ = w.Write([]byte("OK"))
	default:
		w.Header().Set("Retry-After", "1")
		answerProbe(w, probe{Reasons: []api.Reason{{
			Code: "starting", Count: 1, What: "the node reads what it has on disk and looks for its cluster",
		}}})
	}
}

package admin

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

// startPatience is how long a request waits for a node that is starting before it
// is answered that the node is. One that waits for no others takes less: programs
// that ping until there is an answer, and go on from there, find it ready.
const startPatience = time.Second

// Front answers for a node from the moment its sockets are bound: that it lives
// and is not ready, until Open gives it something to serve. With Wait it also
// says what the node waits for. It may be used by many goroutines.
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

// Wait has a node that waits for its cluster tell what it knows, until Open.
func (f *Front) Wait(of Waiting) { f.waiting.Store(newWaiting(of)) }

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
	h, known := f.open.Load(), f.waiting.Load()
	if h == nil && !isProbe(r.URL.Path) && !known.answersAtOnce(r, time.Now()) {
		h = f.await(r.Context())
	}
	if h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	if known.serves(r) {
		known.v1.serve(w, r)
		return
	}
	reasons := known.reasons()
	switch path := r.URL.Path; {
	case path == "/livez" || path == "/healthz":
		answerProbe(w, probe{Reasons: []api.Reason{}})
	case path == "/ping":
		_, _ = w.Write([]byte("OK"))
	case isV1(path):
		w.Header().Set("Retry-After", "1")
		writeJSON(w, http.StatusServiceUnavailable, api.ErrorAnswer{Error: &api.Error{
			Code: api.CodeStarting, Message: reasons[0].What, Hint: "retry in a moment", Fate: fate.Refused.String(),
		}})
	default:
		w.Header().Set("Retry-After", "1")
		answerProbe(w, probe{Reasons: reasons})
	}
}

func isProbe(path string) bool {
	return path == "/livez" || path == "/healthz" || path == "/readyz" || path == "/startupz"
}

// Waiting is what is known of a node that waits for its cluster. Its methods may be
// called by many goroutines.
type Waiting interface {
	Cluster
	// Topics returns the topics as far as this node knows them.
	Topics() []*meta.Topic
	Raft(ctx context.Context) broker.RaftInfo
}

// waiting answers what an operator asks to find out why a cluster does not form.
// nil knows nothing yet.
type waiting struct {
	of    Waiting
	v1    *v1
	since time.Time
}

func newWaiting(of Waiting) *waiting {
	w := &waiting{of, &v1{http.NewServeMux()}, time.Now()}
	v1Cluster{of}.route(w.v1)
	w.v1.handle("GET /v1/cluster/raft", w.raft)
	w.v1.handle("GET /v1/partitions", w.partitions)
	return w
}

// serves says whether it has an answer to a request.
func (w *waiting) serves(r *http.Request) bool {
	if w == nil || !isV1(r.URL.Path) {
		return false
	}
	_, pattern := w.v1.mux.Handler(r)
	return pattern != ""
}

// answersAtOnce says whether to answer a request now: the node has been waiting for
// so long that the request need not wait, too.
func (w *waiting) answersAtOnce(r *http.Request, now time.Time) bool {
	return w.serves(r) && now.Sub(w.since) >= startPatience
}

// reasons returns why the node does not serve: at least one.
func (w *waiting) reasons() []api.Reason {
	if w != nil {
		if reasons := apiReasons(w.of.Ready()); len(reasons) > 0 {
			return reasons
		}
	}
	return []api.Reason{{Code: string(api.CodeStarting), Count: 1, What: "loading data from disk and contacting the cluster"}}
}

func (w *waiting) raft(r *http.Request) (answer, error) {
	return success(apiRaft(w.of.Raft(r.Context())))
}

func (w *waiting) partitions(*http.Request) (answer, error) {
	list := api.PartitionList{Partitions: []api.Partition{}}
	for _, t := range w.of.Topics() {
		for _, p := range apiPartitions(t, nil) {
			p.Topic = t.Name
			list.Partitions = append(list.Partitions, p)
		}
	}
	return success(list)
}

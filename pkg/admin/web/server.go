package web

import (
	"cmp"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
)

// Timeouts and limits of an HTTP server that faces clients. A publish may wait
// for its commit and a profile for its end, so answers have time.
const (
	readHeaderTimeout = 5 * time.Second // of the TLS handshake, too
	readTimeout       = time.Minute
	writeTimeout      = 2 * time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// NewHTTPServer returns an http.Server for a handler, with timeouts and limits for slow, broken or
// hostile clients. The caller adds listeners and stops it. logger receives net/http's messages
// about connections, at debug level; optional.
func NewHTTPServer(h http.Handler, logger *slog.Logger) *http.Server {
	logger = cmp.Or(logger, slog.New(slog.DiscardHandler))
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(new(complaint.Book).Writer(logger, slog.LevelDebug, "HTTP"), "", 0),
	}
}

// Exchange is one request that was answered.
type Exchange struct {
	Route    string // the pattern of the path, never the path itself; "other" for an unknown one
	Status   int
	Duration time.Duration
}

// Refuse answers a request that reaches no endpoint, in the format of its interface: with the word
// on NSQ's, with e on /v1.
type Refuse func(w http.ResponseWriter, r *http.Request, word string, e *api.Error)

// Handler wraps the endpoints with the common steps before and after each request. Serve, Refuse,
// Observe and Logger are required.
type Handler struct {
	// Serve answers a request and returns the pattern that its path matched, or "".
	Serve   func(w http.ResponseWriter, r *http.Request) (pattern string)
	Refuse  Refuse
	Observe func(Exchange) // called with every request; must not block
	Logger  *slog.Logger   // gets the panics of handlers
	// WithoutTLS answers requests without TLS if it is required, except those of probes and, with
	// PlainMetrics, of metrics. nil: TLS is not required.
	WithoutTLS   http.HandlerFunc
	PlainMetrics bool
	// DrainBytes of a refused body are read, so that the client sees the answer.
	DrainBytes int64
	Drops      *limit.Drops // paces that; nil: no limit

	origin http.CrossOriginProtection
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	counted := &statusWriter{ResponseWriter: w, request: r, handler: h}
	route := ""
	defer func() {
		if p := recover(); p != nil {
			h.recovered(counted, r, p)
		}
		if route == "" {
			route = "other"
		}
		h.Observe(Exchange{Route: route, Status: counted.code(), Duration: time.Since(start)})
	}()
	route = h.serve(counted, r)
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) string {
	if h.WithoutTLS != nil && r.TLS == nil && !h.plain(r.URL.Path) {
		h.WithoutTLS(w, r)
		return ""
	}
	// A page of another site must neither change anything nor publish through the browser of a
	// user who can reach the node.
	if err := h.origin.Check(r); err != nil {
		h.Refuse(w, r, "CROSS_ORIGIN", api.Errorf(failure.Forbidden, "%w", err))
		return ""
	}
	return h.Serve(w, r)
}

// plain reports whether a path is always served without TLS.
func (h *Handler) plain(path string) bool {
	return IsProbe(path) || h.PlainMetrics && path == "/metrics"
}

// recovered answers for a handler that panicked.
func (h *Handler) recovered(w *statusWriter, r *http.Request, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p) // net/http's own way to end an answer
	}
	h.Logger.Error("panic in an HTTP handler, a bug in brokerd: its request may have been carried out or not; report it with the stack", "path", complaint.Short(r.URL.Path), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if w.status == 0 { // else it is too late
		h.Refuse(w, r, "INTERNAL_ERROR", api.Errorf(failure.Internal, "internal broker error; see its log"))
	}
}

// statusWriter records the status of a response. If a request is refused for its size, or because
// the node is busy, it makes sure that the client receives the response.
type statusWriter struct {
	http.ResponseWriter
	request *http.Request
	handler *Handler
	status  int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		switch status {
		case http.StatusServiceUnavailable:
			if w.Header().Get("Retry-After") == "" {
				w.Header().Set("Retry-After", "1")
			}
			w.handler.drain(w.ResponseWriter, w.request)
		case http.StatusRequestEntityTooLarge:
			w.handler.drain(w.ResponseWriter, w.request)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *statusWriter) code() int {
	if w.status == 0 {
		return http.StatusOK
	}
	return w.status
}

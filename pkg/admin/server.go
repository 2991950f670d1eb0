package admin

import (
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// Timeouts and limits of an HTTP server that faces clients. A publish may wait
// for its commit and a profile for its end, so answers have time.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = time.Minute
	writeTimeout      = 2 * time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// Server answers the HTTP requests of a node. Make one with New. Its handlers
// may be used by any number of listeners at once.
type Server struct {
	node   http.Handler
	lookup http.Handler
}

// New returns a Server. It fails without a Broker.
func New(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	names := catalog{o.Broker}
	lookups := &lookups{
		catalog: names,
		id:      o.Identity,
		deleted: newRecently(deletedFor),
		hidden:  newRecently(tombstonedFor),
	}
	reports := &reports{o}
	return &Server{
		node: &front{
			router:      nodeRoutes(o, names, lookups, reports),
			observe:     o.Observe,
			logger:      o.Logger,
			tlsRequired: o.TLSRequired, plainMetrics: o.PlainMetrics,
			httpsPort:  o.Identity.HTTPSPort,
			drainBytes: o.Limits.drainBytes(),
		},
		lookup: &front{
			router:     lookupRoutes(lookups, reports),
			observe:    o.Observe,
			logger:     o.Logger,
			drainBytes: o.Limits.drainBytes(),
		},
	}, nil
}

// Handler serves what a node serves on its HTTP and HTTPS addresses: nsqd's
// endpoints, the reading ones of nsqlookupd, health, metrics and /v1.
func (s *Server) Handler() http.Handler { return s.node }

// LookupHandler serves nsqlookupd's endpoints in that program's meaning.
func (s *Server) LookupHandler() http.Handler { return s.lookup }

// NewHTTPServer returns an http.Server for a handler of this package, with
// timeouts and limits fit for clients that are slow, broken or hostile. The
// caller gives it listeners and stops it. logger gets what net/http says of
// connections, at debug level; nil drops it.
func NewHTTPServer(h http.Handler, logger *slog.Logger) *http.Server {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
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

// nodeRoutes is the HTTP address.
func nodeRoutes(o Options, names catalog, lookups *lookups, reports *reports) *router {
	t := &router{}
	publishing := &publishing{catalog: names, bodies: newBodies(o.Memory), limits: o.Limits, turns: o.Turns}
	publishing.route(t)
	(&nodeTopics{catalog: names, lookups: lookups, own: newRecently(deletedFor)}).route(t)
	lookups.routeReads(t)
	reports.route(t)
	if o.Metrics != nil {
		t.handle(http.MethodGet, "/metrics", o.Metrics.ServeHTTP)
	}
	if o.Debug {
		routeDebug(t)
	}
	t.fallback = newV1(names, publishing).serve
	return t
}

// lookupRoutes is the lookup address.
func lookupRoutes(lookups *lookups, reports *reports) *router {
	t := &router{}
	lookups.routeReads(t)
	lookups.routeWrites(t)
	t.plain(http.MethodGet, "/ping", reports.ping)
	t.v1(http.MethodGet, "/info", reports.lookupInfo)
	return t
}

// front is what every request passes before its endpoint, and after it.
type front struct {
	router       *router
	observe      func(Exchange)
	logger       *slog.Logger
	origin       http.CrossOriginProtection
	tlsRequired  bool
	plainMetrics bool  // need no TLS
	httpsPort    int   // where clients are sent that come without TLS
	drainBytes   int64 // of a refused body, that are read so that the client sees the answer
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	counted := &statusWriter{ResponseWriter: w, request: r, drain: f.drainBytes}
	route := ""
	defer func() {
		if p := recover(); p != nil {
			f.recovered(counted, r, p)
		}
		if route == "" {
			route = "other"
		}
		f.observe(Exchange{Route: route, Status: counted.code(), Duration: time.Since(start)})
	}()
	route = f.serve(counted, r)
}

func (f *front) serve(w http.ResponseWriter, r *http.Request) string {
	if f.tlsRequired && r.TLS == nil && !f.plain(r.URL.Path) {
		answerTLSRequired(w, f.httpsPort)
		return ""
	}
	// A page of another site must not change anything, nor publish, through the
	// browser of someone who can reach the node.
	if err := f.origin.Check(r); err != nil {
		answerCrossOrigin(w, r, err)
		return ""
	}
	return f.router.serve(w, r)
}

// plain says whether a path is answered without TLS whoever asks.
func (f *front) plain(path string) bool {
	return isProbe(path) || f.plainMetrics && path == "/metrics"
}

// answerTLSRequired tells a client in plain text where to come with TLS.
func answerTLSRequired(w http.ResponseWriter, port int) {
	w.Header().Set(nsqTypeHeader, nsqType)
	writeJSON(w, http.StatusForbidden, struct {
		Message   string `json:"message"`
		HTTPSPort int    `json:"https_port"`
	}{"TLS_REQUIRED", port})
}

// answerCrossOrigin refuses in the form of the surface that was asked.
func answerCrossOrigin(w http.ResponseWriter, r *http.Request, cause error) {
	if isV1(r.URL.Path) {
		answerError(w, api.Errorf(api.CodeForbidden, "%w", cause))
		return
	}
	answerV1(w, nil, &nsqError{http.StatusForbidden, "CROSS_ORIGIN"})
}

// recovered answers for a handler that panicked.
func (f *front) recovered(w *statusWriter, r *http.Request, p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p) // net/http's own way to end an answer
	}
	f.logger.Error("panic in a handler", "path", complaint.Short(r.URL.Path), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	switch {
	case w.status != 0: // too late
	case isV1(r.URL.Path):
		answerError(w, api.Errorf(api.CodeInternal, "internal error of the broker; see its log"))
	default:
		answerV1(w, nil, &nsqError{http.StatusInternalServerError, "INTERNAL_ERROR"})
	}
}

// statusWriter remembers the status of an answer. Where a request is refused for its
// size or because the node is busy, it sees to it that the client gets to see that.
type statusWriter struct {
	http.ResponseWriter
	request *http.Request
	drain   int64 // bytes of a refused body that are read
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
			drain(w.ResponseWriter, w.request, w.drain)
		case http.StatusRequestEntityTooLarge:
			drain(w.ResponseWriter, w.request, w.drain)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
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

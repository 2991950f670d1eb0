package nsqform

import (
	"net/http"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/admin/web"
)

// The header with the format of a response.
const (
	typeHeader = "X-NSQ-Content-Type"
	typeV1     = "nsq; version=1.0"
)

// Endpoint answers a request to an NSQ endpoint with a value: nil for an empty
// body, a string or []byte for plain text, anything else for JSON. With rare
// exceptions its error is an *Error or one that web.Explain knows.
type Endpoint func(r *http.Request) (any, error)

// route holds the handlers of one path of the NSQ endpoints, by method.
type route struct {
	methods map[string]http.HandlerFunc
	prefix  bool // also serves the paths below
}

// Router finds the endpoints of an address. The zero Router has none.
type Router struct {
	// Answers builds the responses of handlers added with Add. nil: without limits.
	Answers *web.Answers

	routes map[string]route
}

// Handle adds a handler for one method of a path. A path that ends in / serves
// all below it.
func (t *Router) Handle(method, path string, h http.HandlerFunc) {
	if t.routes == nil {
		t.routes = map[string]route{}
	}
	rt, ok := t.routes[path]
	if !ok {
		rt = route{methods: map[string]http.HandlerFunc{}, prefix: strings.HasSuffix(path, "/")}
		t.routes[path] = rt
	}
	rt.methods[method] = h
}

// Add adds an endpoint whose answers have NSQ's version 1.0 form.
func (t *Router) Add(method, path string, e Endpoint) {
	lengths := web.Lengths{Reads: method == http.MethodGet}
	t.Handle(method, path, func(w http.ResponseWriter, r *http.Request) {
		v, written, err := t.Answers.Make(r.Context(), &lengths, func() (any, error) { return e(r) })
		defer written()
		web.ActOf(r.Context()).Failed(err)
		Answer(w, v, err)
	})
}

// Plain adds an endpoint whose answers are bare text, failures too.
func (t *Router) Plain(method, path string, e Endpoint) {
	t.Handle(method, path, func(w http.ResponseWriter, r *http.Request) {
		v, err := e(r)
		web.ActOf(r.Context()).Failed(err)
		answerPlain(w, v, err)
	})
}

// Serve answers a request and returns the pattern that it matched.
func (t *Router) Serve(w http.ResponseWriter, r *http.Request) string {
	pattern, rt, ok := t.find(r.URL.Path)
	if !ok {
		Answer(w, nil, NotFound("NOT_FOUND"))
		return ""
	}
	h, ok := rt.methods[rt.method(r)]
	if !ok {
		allowed := make([]string, 0, len(rt.methods))
		for m := range rt.methods {
			allowed = append(allowed, m)
		}
		slices.Sort(allowed)
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		Answer(w, nil, &Error{http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED"})
		return pattern
	}
	h(w, r)
	return pattern
}

// method returns the method whose handler answers a request.
func (rt route) method(r *http.Request) string {
	if rt.methods[r.Method] == nil && r.Method == http.MethodHead {
		return http.MethodGet
	}
	return r.Method
}

// Match returns the method and the path of the handler that Serve uses for a request; "" if there
// is none.
func (t *Router) Match(r *http.Request) string {
	pattern, rt, ok := t.find(r.URL.Path)
	if method := rt.method(r); ok && rt.methods[method] != nil {
		return method + " " + pattern
	}
	return ""
}

// Patterns returns the methods and paths of all handlers.
func (t *Router) Patterns() (all []string) {
	for path, rt := range t.routes {
		for method := range rt.methods {
			all = append(all, method+" "+path)
		}
	}
	return all
}

func (t *Router) find(path string) (pattern string, rt route, ok bool) {
	if rt, ok := t.routes[path]; ok {
		return path, rt, true
	}
	for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
		if rt, ok := t.routes[path[:i+1]]; ok && rt.prefix {
			return path[:i+1], rt, true
		}
	}
	return "", route{}, false
}

// Answer writes an endpoint's answer in the form of version 1.0.
func Answer(w http.ResponseWriter, v any, err error) {
	w.Header().Set(typeHeader, typeV1)
	status := http.StatusOK
	if err != nil {
		e := errorOf(err)
		status = e.Status
		v = struct {
			Message string `json:"message"`
		}{e.Word}
	}
	switch v := v.(type) {
	case nil:
		w.WriteHeader(status)
	case string:
		web.WriteText(w, status, []byte(v))
	case []byte:
		web.WriteText(w, status, v)
	case web.JSON:
		web.WriteEncoded(w, status, v)
	default:
		web.WriteJSON(w, status, v)
	}
}

// answerPlain writes an endpoint's answer as bare text.
func answerPlain(w http.ResponseWriter, v any, err error) {
	status := http.StatusOK
	if err != nil {
		e := errorOf(err)
		status, v = e.Status, e.Word
	}
	switch v := v.(type) {
	case string:
		web.WriteText(w, status, []byte(v))
	case []byte:
		web.WriteText(w, status, v)
	default:
		w.WriteHeader(status)
	}
}

// AnswerWithoutTLS names the port that serves TLS to a client without TLS.
func AnswerWithoutTLS(w http.ResponseWriter, httpsPort int) {
	w.Header().Set(typeHeader, typeV1)
	web.WriteJSON(w, http.StatusForbidden, struct {
		Message   string `json:"message"`
		HTTPSPort int    `json:"https_port"`
	}{"TLS_REQUIRED", httpsPort})
}

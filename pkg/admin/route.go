package admin

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// Headers of the answers.
const (
	nsqTypeHeader = "X-NSQ-Content-Type"
	nsqType       = "nsq; version=1.0"
	jsonType      = "application/json; charset=utf-8"
	textType      = "text/plain; charset=utf-8"
)

// endpoint answers a request to an NSQ endpoint with a value: nil for an empty
// body, a string or []byte for plain text, anything else for JSON. With rare
// exceptions its error is an *nsqError or one that explain knows.
type endpoint func(r *http.Request) (any, error)

// route is what one path of the NSQ endpoints answers, by method.
type route struct {
	methods map[string]http.HandlerFunc
	prefix  bool // serves what is below the path, too
}

// router finds the endpoints of one of the two NSQ surfaces.
type router struct {
	routes map[string]route
	// fallback answers what no route knows; it returns false where it does not either.
	fallback func(w http.ResponseWriter, r *http.Request) (pattern string, ok bool)
}

// handle adds a handler for one method of a path. A path that ends in / serves
// all below it.
func (t *router) handle(method, path string, h http.HandlerFunc) {
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

// v1 adds an endpoint whose answers have NSQ's version 1.0 form.
func (t *router) v1(method, path string, e endpoint) {
	t.handle(method, path, func(w http.ResponseWriter, r *http.Request) {
		v, err := e(r)
		answerV1(w, v, err)
	})
}

// plain adds an endpoint whose answers are bare text, failures too.
func (t *router) plain(method, path string, e endpoint) {
	t.handle(method, path, func(w http.ResponseWriter, r *http.Request) {
		v, err := e(r)
		answerPlain(w, v, err)
	})
}

// serve answers a request and returns the pattern that it matched.
func (t *router) serve(w http.ResponseWriter, r *http.Request) string {
	pattern, rt, ok := t.find(r.URL.Path)
	if !ok {
		if t.fallback != nil {
			if pattern, ok := t.fallback(w, r); ok {
				return pattern
			}
		}
		answerV1(w, nil, notFound("NOT_FOUND"))
		return ""
	}
	h, ok := rt.methods[r.Method]
	if !ok && r.Method == http.MethodHead {
		h, ok = rt.methods[http.MethodGet]
	}
	if !ok {
		allowed := make([]string, 0, len(rt.methods))
		for m := range rt.methods {
			allowed = append(allowed, m)
		}
		slices.Sort(allowed)
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		answerV1(w, nil, &nsqError{http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED"})
		return pattern
	}
	h(w, r)
	return pattern
}

func (t *router) find(path string) (pattern string, rt route, ok bool) {
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

// answerV1 writes an endpoint's answer in the form of version 1.0.
func answerV1(w http.ResponseWriter, v any, err error) {
	w.Header().Set(nsqTypeHeader, nsqType)
	status := http.StatusOK
	if err != nil {
		e := nsqFailure(err)
		status = e.status
		v = struct {
			Message string `json:"message"`
		}{e.word}
	}
	switch v := v.(type) {
	case nil:
		w.WriteHeader(status)
	case string:
		writeBody(w, status, textType, []byte(v))
	case []byte:
		writeBody(w, status, textType, v)
	default:
		writeJSON(w, status, v)
	}
}

// answerPlain writes an endpoint's answer as bare text.
func answerPlain(w http.ResponseWriter, v any, err error) {
	status := http.StatusOK
	if err != nil {
		e := nsqFailure(err)
		status, v = e.status, e.word
	}
	switch v := v.(type) {
	case string:
		writeBody(w, status, textType, []byte(v))
	case []byte:
		writeBody(w, status, textType, v)
	default:
		w.WriteHeader(status)
	}
}

// writeJSON writes one JSON value and no newline.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic("BUG: response is not JSON: " + err.Error())
	}
	writeBody(w, status, jsonType, body)
}

func writeBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // ignore: the client disconnected
}

package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/meta"
)

// maxRequestBytes bounds the JSON of a request that publishes nothing.
const maxRequestBytes = 1 << 20

// v1 serves the /v1 interface that package api describes.
type v1 struct{ mux *http.ServeMux }

// answer is what an endpoint of /v1 has to say: a status and a value for JSON,
// or none with 204.
type answer struct {
	status  int
	value   any
	written func() // called when it has been written; nil: nothing is to be done
}

func success(v any) (answer, error) { return answer{status: http.StatusOK, value: v}, nil }
func created(v any) (answer, error) { return answer{status: http.StatusCreated, value: v}, nil }

// done is the answer of what has nothing to say but its error.
func done(err error) (answer, error) { return answer{status: http.StatusNoContent}, err }

func newV1(names catalog, publishing *publishing) *v1 {
	v := &v1{http.NewServeMux()}
	v1Topics{names}.route(v)
	v1Channels{v1Topics{names}}.route(v)
	v1Messages{v1Channels{v1Topics{names}}, publishing}.route(v)
	v1Cluster{names.broker}.route(v)
	v1Operate{names.broker}.route(v)
	return v
}

// handle adds an endpoint under a method and a pattern.
func (v *v1) handle(pattern string, e func(*http.Request) (answer, error)) {
	v.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		a, err := e(r)
		if a.written != nil {
			defer a.written()
		}
		switch {
		case err != nil:
			answerError(w, err)
		case a.value == nil:
			w.WriteHeader(a.status)
		default:
			writeJSON(w, a.status, a.value)
		}
	})
}

// straight says whether a path names what it seems to: no segment of it is empty,
// "." or "..", or holds a slash, also not percent-encoded. Proxies, libraries and
// ServeMux clean such paths, and the clean one names another resource. The last
// segment may be empty: no endpoint has such a path.
func straight(u *url.URL) bool {
	segments := strings.Split(strings.TrimSuffix(strings.TrimPrefix(u.EscapedPath(), "/"), "/"), "/")
	for _, s := range segments {
		name, err := url.PathUnescape(s)
		if err != nil || name == "" || meta.IsDotSegment(name) || strings.Contains(name, "/") {
			return false
		}
	}
	return true
}

// isV1 says whether a path is below /v1.
func isV1(path string) bool { return path == "/v1" || strings.HasPrefix(path, "/v1/") }

// serve answers what is below /v1. It returns false for any other path.
func (v *v1) serve(w http.ResponseWriter, r *http.Request) (pattern string, ok bool) {
	if !isV1(r.URL.Path) {
		return "", false
	}
	w.Header().Set("Cache-Control", "no-store")
	if !straight(r.URL) {
		e := api.Errorf(api.CodeInvalid, "path %s has a segment that is empty, . or .., or contains a slash", r.URL.EscapedPath())
		e.Hint = "to delete topics and channels named . or .., use DELETE /v1/topics?topic=NAME and DELETE /v1/channels?topic=NAME&channel=NAME"
		answerError(w, e)
		return "", true
	}
	if _, pattern := v.mux.Handler(r); pattern != "" {
		v.mux.ServeHTTP(w, r)
		_, path, _ := strings.Cut(pattern, " ")
		return path, true
	}
	if allowed := v.methods(r); len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		answerError(w, api.Errorf(api.CodeMethod, "%s does not support method %s", r.URL.Path, r.Method))
		return "", true
	}
	answerError(w, api.Errorf(api.CodeNotFound, "%s not found", r.URL.Path))
	return "", true
}

// methods lists the methods that the path of r knows.
func (v *v1) methods(r *http.Request) []string {
	var allowed []string
	for _, m := range []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost} {
		other := &http.Request{Method: m, Host: r.Host, URL: r.URL}
		if _, pattern := v.mux.Handler(other); pattern != "" {
			allowed = append(allowed, m)
		}
	}
	return slices.Clip(allowed)
}

// answerError writes a failure of /v1.
func answerError(w http.ResponseWriter, err error) {
	e := apiError(err)
	writeJSON(w, e.Code.Status(), api.ErrorAnswer{Error: e})
}

// apiError is an error as /v1 answers it.
func apiError(err error) *api.Error {
	if e, ok := errors.AsType[*api.Error](err); ok {
		answered := *e
		if answered.Fate == "" && e.Code.Status() < http.StatusInternalServerError {
			answered.Fate = fate.Refused.String() // it was not even tried
		}
		return &answered
	}
	f := explain(err)
	e := api.Errorf(f.code, "%w", err)
	e.Hint = f.hint
	e.Fate = fate.Of(err).String()
	return e
}

// readJSON reads a body that is one JSON value without unknown fields.
func readJSON(r *http.Request, into any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBytes+1))
	if err != nil {
		return api.Errorf(api.CodeInvalid, "read request body: %w", err)
	}
	if len(body) > maxRequestBytes {
		return api.Errorf(api.CodeTooLarge, "request body exceeds %d bytes", maxRequestBytes)
	}
	return decodeJSON(body, into)
}

func decodeJSON(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return api.Errorf(api.CodeInvalid, "request body is empty, expected JSON")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return api.Errorf(api.CodeInvalid, "invalid request body: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if d.More() {
		return api.Errorf(api.CodeInvalid, "request body has trailing data after the JSON value")
	}
	return nil
}

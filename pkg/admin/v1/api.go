package v1

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/jsonbytes"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/units"
)

// maxRequestBytes bounds the JSON of a request that publishes nothing.
const maxRequestBytes = 1 << 20

// API serves the interface that package api describes.
type API struct {
	mux      *http.ServeMux
	topics   topicsAPI
	answers  *web.Answers
	patterns []string        // of mux
	tried    map[string]bool // patterns that take the parameter dry_run
}

// Options are the dependencies of the interface. All are required except Answers.
type Options struct {
	Broker     Broker
	Operator   Operator
	Policies   Policies
	Plans      Plans
	Deferrals  Deferrals
	Trash      Trash
	Traces     Traces
	Diagnose   Diagnose // diagnostic data of the process, for a debug bundle; optional
	Snapshot   Snapshot // a copy of the metadata; nil: the node gives none
	Upgrades   Upgrades
	Settings   Settings
	ConfigFrom web.Networks // of clients that may change settings while access control is off
	Access     Access
	Publishing *web.Publishing
	Answers    *web.Answers // nil: without limits
}

// Complete reports whether the node has all parts.
func (o *Options) Complete() bool {
	return o.Broker.TopicReader != nil && o.Operator.NodeOperator != nil && o.Policies != nil && o.Plans != nil && o.Deferrals != nil &&
		o.Trash != nil && o.Traces != nil && o.Upgrades != nil && o.Settings != nil && o.Access.Accesses != nil
}

// New returns all of the interface.
func New(o Options) *API {
	v := &API{mux: http.NewServeMux(), answers: cmp.Or(o.Answers, &web.Answers{})}
	topics := topicsAPI{o.Broker, o.Policies, o.Plans}
	v.topics = topics
	topics.route(v)
	trashAPI{topics, o.Trash}.route(v)
	channels := channelsAPI{topics, o.Policies}
	channels.route(v)
	lagAPI{channels}.route(v)
	historyAPI{channels}.route(v)
	messages := messagesAPI{channels, o.Publishing, v.answers.Memory, new(atomic.Pointer[string])}
	messages.route(v)
	deadLettersAPI{messages}.route(v)
	messageAPI{messages}.route(v)
	againAPI{messageAPI{messages}}.route(v)
	deferredAPI{messageAPI{messages}, o.Deferrals}.route(v)
	traceAPI{topics, o.Traces}.route(v)
	clusterAPI{o.Broker}.route(v)
	upgradeAPI{o.Upgrades}.route(v)
	settingsAPI{o.Settings, o.ConfigFrom}.route(v)
	auditAPI{o.Broker}.route(v)
	accessAPI{o.Access}.route(v)
	operateAPI{o.Operator}.route(v)
	o.Diagnose.route(v)
	o.Snapshot.route(v)
	return v
}

// answer is the result of an endpoint of /v1: a status and a value for JSON, or none with 204.
type answer struct {
	status  int
	value   any
	turns   *limit.Turns // in which a long value is encoded
	written func()       // called when it was written; optional
}

func success(v any) (answer, error) { return answer{status: http.StatusOK, value: v}, nil }
func created(v any) (answer, error) { return answer{status: http.StatusCreated, value: v}, nil }

// reply returns a value as answer, or its error.
func reply(v any, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return success(v)
}

// then answers a change with the result of a read after it.
func then(err error, r *http.Request, say func(*http.Request) (answer, error)) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return say(r)
}

// done is the answer without a value, or its error.
func done(err error) (answer, error) { return answer{status: http.StatusNoContent}, err }

// handle adds an endpoint under a method and a pattern.
func (v *API) handle(pattern string, e func(*http.Request) (answer, error)) {
	lengths := web.Lengths{Reads: strings.HasPrefix(pattern, "GET ")}
	v.patterns = append(v.patterns, pattern)
	v.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("dry_run") && !v.tried[pattern] { // it must not be carried out
			AnswerError(w, api.Errorf(failure.Invalid, "%s takes no parameter dry_run: nothing was changed", pattern))
			return
		}
		var a answer
		made, written, err := v.answers.Make(r.Context(), &lengths, func() (value any, err error) {
			a, err = e(r)
			return a.value, err
		})
		defer written()
		web.ActOf(r.Context()).Failed(err)
		body, _ := made.(web.JSON) // all values of /v1 are
		write(w, a.status, body, v.topics.naming(r, err))
	})
}

// handleTry adds an endpoint that takes the parameter dry_run: see isDryRun.
func (v *API) handleTry(pattern string, e func(*http.Request) (answer, error)) {
	if v.tried == nil {
		v.tried = map[string]bool{}
	}
	v.tried[pattern] = true
	v.handle(pattern, e)
}

// write answers with a body that is encoded, with a status alone, or with an error.
func write(w http.ResponseWriter, status int, body []byte, err error) {
	switch {
	case err != nil:
		AnswerError(w, err)
	case body == nil:
		w.WriteHeader(status)
	default:
		web.WriteEncoded(w, status, body)
	}
}

// handleCharged adds an endpoint that charges for its answers by their content.
func (v *API) handleCharged(pattern string, e func(*http.Request) (answer, error)) {
	v.patterns = append(v.patterns, pattern)
	v.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		a, err := e(r)
		if a.written != nil {
			defer a.written()
		}
		var body []byte
		if err == nil && a.value != nil {
			a.turns.Do(func() { body = web.EncodeJSON(a.value) })
		}
		write(w, a.status, body, v.topics.naming(r, err))
	})
}

// straight reports whether a path is unambiguous: no segment is empty, "." or "..", or contains a
// slash, even percent-encoded. Proxies, libraries and ServeMux clean such paths, and the cleaned
// path names another resource. The last segment may be empty: no endpoint has such a path.
func straight(u *url.URL) bool {
	segments := strings.SplitSeq(strings.TrimSuffix(strings.TrimPrefix(u.EscapedPath(), "/"), "/"), "/")
	for s := range segments {
		name, err := url.PathUnescape(s)
		if err != nil || name == "" || meta.IsDotSegment(name) || strings.Contains(name, "/") {
			return false
		}
	}
	return true
}

// Owns reports whether a path is below /v1.
func Owns(path string) bool { return path == "/v1" || strings.HasPrefix(path, "/v1/") }

// Serve answers a request that [Owns] and returns the pattern of its path, or "".
func (v *API) Serve(w http.ResponseWriter, r *http.Request) (pattern string) {
	w.Header().Set("Cache-Control", "no-store")
	if !straight(r.URL) {
		e := api.Errorf(failure.Invalid, "path %s has a segment that is empty, . or .., or contains a slash", r.URL.EscapedPath())
		e.Hint = "to delete topics and channels named . or .., use DELETE /v1/topics?topic=NAME and DELETE /v1/channels?topic=NAME&channel=NAME"
		AnswerError(w, e)
		return ""
	}
	if _, pattern := v.mux.Handler(r); pattern != "" {
		v.mux.ServeHTTP(w, r)
		_, path, _ := strings.Cut(pattern, " ")
		return path
	}
	if allowed := v.methods(r); len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		AnswerError(w, api.Errorf(failure.Method, "%s does not support method %s", r.URL.Path, r.Method))
		return ""
	}
	AnswerError(w, api.Errorf(failure.NotFound, "%s not found", r.URL.Path))
	return ""
}

// Match returns the pattern, with its method, of the endpoint that Serve uses for a request; "" if
// there is none.
func (v *API) Match(r *http.Request) string {
	if !straight(r.URL) {
		return ""
	}
	_, pattern := v.mux.Handler(r)
	return pattern
}

// Patterns returns the patterns of all endpoints.
func (v *API) Patterns() []string { return v.patterns }

// methods lists the methods that the path of r knows.
func (v *API) methods(r *http.Request) []string {
	var allowed []string
	for _, m := range []string{http.MethodDelete, http.MethodGet, http.MethodPatch, http.MethodPost} {
		other := &http.Request{Method: m, Host: r.Host, URL: r.URL}
		if _, pattern := v.mux.Handler(other); pattern != "" {
			allowed = append(allowed, m)
		}
	}
	return slices.Clip(allowed)
}

// AnswerError writes a failure of /v1.
func AnswerError(w http.ResponseWriter, err error) {
	e := apiError(err)
	web.WriteJSON(w, e.Code.Status(), api.ErrorAnswer{Error: e})
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
	f := failure.Of(err)
	e := api.Errorf(f.Code, "%w", err)
	e.Hint = f.Hint
	e.Fate = fate.Of(err).String()
	return e
}

// readJSON reads a body that is one JSON value without unknown fields.
func readJSON(r *http.Request, into any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequestBytes+1))
	if err != nil {
		return api.Errorf(failure.Invalid, "read request body: %w", err)
	}
	if len(body) > maxRequestBytes {
		return api.Errorf(failure.TooLarge, "request body exceeds %d bytes", maxRequestBytes)
	}
	return decodeJSON(body, into)
}

// with is an endpoint whose request has a body, which read decodes.
func with[T any](read func(*http.Request, any) error, do func(*http.Request, T) (answer, error)) func(*http.Request) (answer, error) {
	return func(r *http.Request) (answer, error) {
		var req T
		if err := read(r, &req); err != nil {
			return answer{}, err
		}
		return do(r, req)
	}
}

func decodeJSON(body []byte, into any) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return api.Errorf(failure.Invalid, "request body is empty, expected JSON")
	}
	if err := jsonbytes.Check(body); err != nil {
		return api.Errorf(failure.Invalid, "request body: %w; give such bytes in base64", err)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return api.Errorf(failure.Invalid, "invalid request body: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if d.More() {
		return api.Errorf(failure.Invalid, "request body has trailing data after the JSON value")
	}
	return nil
}

// numberIn parses the parameter n of a query, with a minimum, and a default if it is missing.
func numberIn(q url.Values, otherwise, least int) (int, error) {
	text := q.Get("n")
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, api.Errorf(failure.Invalid, "n is %q, must be a number of at least %d", text, least)
	}
	return n, nil
}

// timeIn reads a parameter of a query that is a time; without it, it is the zero time.
func timeIn(q url.Values, name string) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := units.ParseTime(text, nil)
	if err != nil {
		return at, api.Errorf(failure.Invalid, "%s %q %w", name, text, err)
	}
	return at, nil
}

package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
)

// maxAnswerBytes limits the size of a response that the client reads.
const maxAnswerBytes = 256 << 20

// maxRedirects bounds how often a read is redirected.
const maxRedirects = 10

// transport sends one request to the first of several nodes that accepts it.
type transport struct {
	http  *http.Client
	agent string
	// reason is sent with requests that change something.
	reason        string
	user          string // of the operating system; optional
	authorization string

	mu    sync.Mutex             // guards bases and heard
	bases []*url.URL             // only appended to
	heard map[*url.URL]time.Time // when each of them last answered
	first atomic.Int64           // the index in bases that answered last
}

func newHTTPClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone() // documented by net/http
	t.DialContext = (&net.Dialer{Timeout: DialTimeout}).DialContext
	return &http.Client{Transport: t}
}

// steadfast returns a client that does not follow redirects of changes: a redirect, of a proxy for
// instance, may name another resource.
func steadfast(c *http.Client) *http.Client {
	s := *c
	s.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		switch {
		case via[0].Method != http.MethodGet:
			return http.ErrUseLastResponse
		case c.CheckRedirect != nil:
			return c.CheckRedirect(r, via)
		case len(via) >= maxRedirects:
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		return nil
	}
	return &s
}

// isDotSegment reports whether a name cannot be a segment of a path, because it means
// the segment itself or the one above.
func isDotSegment(name string) bool { return name == "." || name == ".." }

// parseAddress reads a URL or a host:port.
func parseAddress(text string) (*url.URL, error) {
	full := text
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	base, err := url.Parse(full)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, &Error{
			Code:    failure.Invalid,
			Message: fmt.Sprintf("%q is not a broker address", text),
			Hint:    "use the form http://host:4151",
			cause:   err,
		}
	}
	return base, nil
}

// path joins names to a percent-encoded path below /v1.
func path(names ...string) string {
	var b strings.Builder
	b.WriteString("/v1")
	for _, name := range names {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(name))
	}
	return b.String()
}

// into gets one object.
func into[T any](ctx context.Context, t *transport, path string) (*T, error) {
	out := new(T)
	return out, t.get(ctx, path, nil, out)
}

// find gets the object that a query chooses.
func find[T any](ctx context.Context, t *transport, path string, query url.Values) (*T, error) {
	out := new(T)
	return out, t.get(ctx, path, query, out)
}

func (t *transport) get(ctx context.Context, path string, query url.Values, out any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return t.send(ctx, http.MethodGet, path, nil, out)
}

// encode returns a value as JSON in which nothing is escaped for HTML: a header must not become longer
// than it was when it was published.
func encode(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// send carries a request with a JSON body, unless in is nil, and decodes the
// answer into out, unless that is nil.
func (t *transport) send(ctx context.Context, method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = encode(in); err != nil {
			return Errorf(failure.Invalid, "encode request: %w", err)
		}
	}
	var failed []error
	start, bases := int(t.first.Load()), t.known()
	for i := range bases {
		at := (start + i) % len(bases)
		again, err := t.attempt(ctx, len(bases)-i, request{bases[at], method, path, body}, out)
		if err == nil || !again {
			t.first.Store(int64(at))
			return err
		}
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return noneOf(failed, len(bases))
}

// noneOf returns the error of a request that none of several addresses has taken: it names each with its reason.
func noneOf(failed []error, addresses int) error {
	last := failed[len(failed)-1]
	if len(failed) == 1 {
		return last
	}
	reasons := make([]string, len(failed))
	for i, err := range failed {
		reasons[i] = err.Error()
	}
	all := Error{Code: failure.Unavailable, cause: last}
	if e, ok := errors.AsType[*Error](last); ok {
		all = *e
	}
	all.Message = fmt.Sprintf("%d of %d addresses tried, none took the request: %s", len(failed), addresses, strings.Join(reasons, "; "))
	return &all
}

// known returns the addresses.
func (t *transport) known() []*url.URL {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bases[:len(t.bases):len(t.bases)]
}

// know adds an address that is not known.
func (t *transport) know(base *url.URL) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bases[0].Scheme != base.Scheme || slices.ContainsFunc(t.bases, func(b *url.URL) bool { return b.Host == base.Host }) {
		return
	}
	t.bases = append(t.bases, base)
}

// request is one request to a node.
type request struct {
	base   *url.URL
	method string
	path   string
	body   []byte
}

// attempt tries one of the nodes in left. If the request may be repeated, it leaves the others
// their share of the time. If not, and if there are others, it is sent only to a node that answers a probe.
func (t *transport) attempt(ctx context.Context, left int, r request, out any) (again bool, err error) {
	if deadline, ok := ctx.Deadline(); ok && r.method == http.MethodGet && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	if r.method != http.MethodGet && len(t.known()) > 1 {
		if err := t.probe(ctx, left, r.base); err != nil {
			return true, err
		}
	}
	return t.try(ctx, r, out)
}

// probe checks that a node answers before a change is sent to it: the outcome of a change without an answer is unknown.
// A node that answered within DialTimeout is not asked. The probe uses one share of the remaining time; the other nodes
// in left, and the change, have one each.
func (t *transport) probe(ctx context.Context, left int, base *url.URL) error {
	t.mu.Lock()
	recent := time.Since(t.heard[base]) < DialTimeout
	t.mu.Unlock()
	if recent {
		return nil
	}
	most := DialTimeout
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline)/time.Duration(left+1))
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base.String(), "/")+"/ping", http.NoBody)
	if err != nil {
		return Errorf(failure.Invalid, "%w", err)
	}
	began := time.Now()
	resp, err := t.http.Do(req)
	if err != nil {
		return Errorf(failure.Unavailable, "no answer from %s, nothing was changed: %w", base.Host, inTime(err, began))
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxProbe)) // for the connection's reuse
	_ = resp.Body.Close()                                           // likewise
	return nil
}

// try sends the request to one node. again reports whether the next node may be tried: nothing was
// changed, or the request may be repeated.
func (t *transport) try(ctx context.Context, r request, out any) (again bool, err error) {
	if slices.ContainsFunc(strings.Split(r.path, "/"), isDotSegment) {
		return false, Errorf(failure.Invalid, "topics and channels named . or .. can only be deleted")
	}
	target := strings.TrimSuffix(r.base.String(), "/") + r.path
	req, err := http.NewRequestWithContext(ctx, r.method, target, bytes.NewReader(r.body))
	if err != nil {
		return false, Errorf(failure.Invalid, "%w", err)
	}
	req.Header.Set("Accept", "application/json")
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if reason := cmp.Or(ReasonOf(req.Context()), t.reason); reason != "" && req.Method != http.MethodGet {
		req.Header.Set(ReasonHeader, reason)
	}
	if t.authorization != "" {
		req.Header.Set("Authorization", t.authorization)
	}
	if t.user != "" && req.Method != http.MethodGet {
		req.Header.Set(SystemUserHeader, t.user)
	}
	if t.agent != "" {
		req.Header.Set("User-Agent", t.agent)
	}
	began := time.Now()
	resp, err := t.http.Do(req)
	if err != nil {
		return unreached(r, inTime(err, began))
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or of no more use
	t.mu.Lock()
	t.heard[r.base] = time.Now()
	t.mu.Unlock()
	if to := resp.Header.Get("Location"); resp.StatusCode/100 == 3 && to != "" {
		e := Errorf(failure.Invalid, "%s redirects to %s, and changes are not redirected: nothing was changed", r.base.Host, to)
		e.Hint = "use the address of a brokerd node itself"
		return false, e
	}
	if resp.StatusCode/100 != 2 {
		e := readError(r.base, resp)
		return e.Code == failure.Exiting || e.Code == failure.Starting, e
	}
	if out == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswerBytes)) // for the connection's reuse
		return false, nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswerBytes)).Decode(out); err != nil {
		return false, Errorf(failure.Internal, "unexpected response from %s: %w", r.base.Host, err)
	}
	return false, nil
}

// timedOut is the failure of a request to a node that did not answer, or could not be reached, in time.
type timedOut struct {
	after time.Duration
	cause error
}

// Error reports how long the client waited for the answer.
func (t timedOut) Error() string { return "timed out after " + t.after.String() }

// Unwrap returns the error of the HTTP client, from which unreached learns whether the request was sent.
func (t timedOut) Unwrap() error { return t.cause }

// inTime returns why an HTTP request that began then got no answer. The error of the HTTP client
// repeats method and URL, which do not help an operator.
func inTime(cause error, began time.Time) error {
	if wrapped, ok := errors.AsType[*url.Error](cause); ok {
		cause = wrapped.Err
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return timedOut{time.Since(began).Round(100 * time.Millisecond), cause}
	}
	return cause
}

// unreached marks a network failure. A request that did not get a connection was not sent; any
// other may have been carried out.
func unreached(r request, cause error) (again bool, err error) {
	op, ok := errors.AsType[*net.OpError](cause)
	unsent := ok && op.Op == "dial"
	if unsent || r.method == http.MethodGet {
		return true, Errorf(failure.Unavailable, "no answer from %s: %w", r.base.Host, cause)
	}
	e := Errorf(failure.Uncertain, "no answer from %s, the request may have been carried out: %w", r.base.Host, cause)
	e.Hint = "ask another node whether it was, before you repeat it: of all but publishes, the audit log has what was carried out"
	return false, e
}

// tlsRequired is the response of a node that requires TLS to a request without it.
const tlsRequired = "TLS_REQUIRED"

// readError parses the error in a response, or constructs one if the response is not that of a
// broker.
func readError(base *url.URL, resp *http.Response) *Error {
	const maxErrorBytes = 64 << 10
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes)) // a part is better than nothing
	var answer ErrorAnswer
	if json.Unmarshal(raw, &answer) == nil && answer.Error != nil && answer.Error.Code != "" {
		return answer.Error
	}
	var nsq struct {
		Message   string `json:"message"`
		HTTPSPort int    `json:"https_port"`
	}
	if json.Unmarshal(raw, &nsq) == nil && nsq.Message == tlsRequired {
		e := Errorf(failure.Precondition, "%s requires TLS", base.Host)
		e.Hint = fmt.Sprintf("use https://%s", net.JoinHostPort(base.Hostname(), strconv.Itoa(nsq.HTTPSPort)))
		return e
	}
	e := Errorf(failure.Internal, "%s responded %s, not as the admin API of brokerd does", base.Host, resp.Status)
	e.Hint = "use the http-address of a node, by default port 4151, not that of its lookup or another server"
	return e
}

type reasonKey struct{}

// WithReason returns a context whose changes have a reason of their own in the audit log, instead of
// ClientOptions.Reason. It must be fit for a header: without line breaks.
func WithReason(ctx context.Context, reason string) context.Context {
	return context.WithValue(ctx, reasonKey{}, reason)
}

// ReasonOf returns the reason that WithReason has given a context, or "".
func ReasonOf(ctx context.Context) string {
	reason, _ := ctx.Value(reasonKey{}).(string)
	return reason
}

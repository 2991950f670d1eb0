package otlp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	// tracesPath is the path at which a collector accepts spans.
	tracesPath = "/v1/traces"
	// requestTime bounds one request.
	requestTime = 10 * time.Second
	// retryTime is how long a batch is retried.
	retryTime = time.Minute
	// firstPause is the first pause between two attempts, and maxPause the longest.
	firstPause, maxPause = time.Second, 30 * time.Second
	// maxAnswer bounds what is read of a response.
	maxAnswer = 64 << 10
)

// ParseEndpoint returns the URL to which spans are posted. An endpoint is the base URL of a
// collector, such as http://localhost:4318, or a URL that ends with /v1/traces.
func ParseEndpoint(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("is not a URL such as http://localhost:4318")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", errors.New("is not an http or https URL such as http://localhost:4318")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("must have neither credentials nor a query; credentials go into otlp-headers-file")
	}
	if !strings.HasSuffix(u.Path, tracesPath) {
		u.Path = strings.TrimSuffix(u.Path, "/") + tracesPath
	}
	return u.String(), nil
}

// ParseHeaders reads HTTP headers, one "Name: value" a line. Empty lines and those that begin
// with # are skipped. No error quotes a value.
func ParseHeaders(text string) (http.Header, error) {
	h := http.Header{}
	n := 0
	for l := range strings.Lines(text) {
		n++
		l = strings.TrimSpace(l)
		if l == "" || l[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(l, ":")
		value = strings.TrimSpace(value)
		if !ok || !token(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, fmt.Errorf("line %d is not \"Name: value\"", n)
		}
		h.Add(name, value)
	}
	return h, nil
}

func token(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}

// sender posts batches, one at a time.
type sender struct {
	x        *Exporter
	client   *http.Client
	resource *resourcepb.Resource
	scope    *commonpb.InstrumentationScope
	ctx      context.Context // ends when the time for closing is over
	cancel   context.CancelFunc
	failing  atomic.Bool // the last attempt failed
}

func newSender(x *Exporter) sender {
	tr := x.o.Transport
	if tr == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxIdleConnsPerHost = 1
		tr = own
	}
	ctx, cancel := context.WithCancel(context.Background())
	return sender{
		x: x, ctx: ctx, cancel: cancel,
		client: &http.Client{Transport: tr, Timeout: requestTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
			text("service.name", "brokerd"), text("service.instance.id", x.o.Node), text("service.version", x.o.Version),
		}},
		scope: &commonpb.InstrumentationScope{Name: "github.com/brokerd/brokerd", Version: x.o.Version},
	}
}

// watch cancels requests after the exporter is closed: at once if the last one failed,
// otherwise after closeTime.
func (s *sender) watch() (stop func()) {
	over := make(chan struct{})
	go func() {
		select {
		case <-over:
			return
		case <-s.x.quit:
		}
		if !s.failing.Load() {
			timer := time.NewTimer(closeTime)
			defer timer.Stop()
			select {
			case <-over:
			case <-timer.C:
			}
		}
		s.cancel()
	}()
	return func() {
		close(over)
		s.cancel()
		s.client.CloseIdleConnections()
	}
}

// deliver posts a batch until it is accepted or permanently refused, or the time is over. It
// returns how many of its spans were accepted and how many were refused.
func (s *sender) deliver(batch []*tracepb.Span) (taken, rejected int, err error) {
	body, err := proto.Marshal(&collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource:   s.resource,
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: s.scope, Spans: batch}},
	}}})
	if err != nil {
		return 0, len(batch), fmt.Errorf("encode spans: %w", err)
	}
	until := time.Now().Add(retryTime)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		a := s.post(body)
		s.failing.Store(a.again)
		if !a.again {
			refused := min(max(a.rejected, 0), len(batch))
			if a.err != nil && a.rejected == 0 {
				refused = len(batch)
			}
			return len(batch) - refused, refused, a.err
		}
		wait := cmp.Or(min(a.after, maxPause), pause)
		if s.ctx.Err() != nil || time.Now().Add(wait).After(until) {
			return 0, 0, fmt.Errorf("%d spans are dropped: %w", len(batch), a.err)
		}
		s.x.o.Failed(a.err)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			timer.Stop()
			return 0, 0, fmt.Errorf("%d spans are dropped: %w", len(batch), a.err)
		}
	}
}

// answer is the result of a request.
type answer struct {
	err      error
	rejected int           // spans of an accepted batch that were refused
	again    bool          // it may be retried
	after    time.Duration // not before this time; 0: unspecified
}

func (s *sender) post(body []byte) answer {
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, s.x.url, bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	maps.Copy(req.Header, s.x.o.Header)
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "brokerd/"+s.x.o.Version)
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{err: err, again: true}
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case resp.StatusCode/100 == 2:
		return partial(data) // a truncated response to a success is still a success
	case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusBadGateway,
		resp.StatusCode == http.StatusServiceUnavailable, resp.StatusCode == http.StatusGatewayTimeout:
		after, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		after = min(max(after, 0), int(maxPause/time.Second))
		return answer{err: fmt.Errorf("%s answers %s", s.x.url, resp.Status), again: true, after: time.Duration(after) * time.Second}
	}
	return answer{err: errors.Join(fmt.Errorf("%s answers %s: spans are dropped", s.x.url, resp.Status), err)}
}

// partial reads how many spans of a request the collector has refused.
func partial(data []byte) answer {
	var r collectorpb.ExportTraceServiceResponse
	if proto.Unmarshal(data, &r) != nil {
		return answer{}
	}
	p := r.GetPartialSuccess()
	if p.GetRejectedSpans() <= 0 {
		return answer{}
	}
	n := int(min(p.GetRejectedSpans(), batchSpans))
	return answer{rejected: n, err: fmt.Errorf("the collector has rejected %d spans: %.200q", n, p.GetErrorMessage())}
}

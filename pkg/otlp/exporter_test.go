package otlp

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector answers requests without a network.
type collector struct {
	mu     sync.Mutex
	spans  map[string]int // by name
	last   *http.Request
	answer func(n int) (*http.Response, error) // of the n-th request; nil: 200
	asked  int
	hang   atomic.Bool
}

func response(status int, body proto.Message, header ...string) *http.Response {
	data, _ := proto.Marshal(body)
	r := &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(data)))}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func (c *collector) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.hang.Load() {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	data, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	var r collectorpb.ExportTraceServiceRequest
	if err := proto.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	c.last = req
	if c.answer != nil {
		if resp, err := c.answer(c.asked); resp != nil || err != nil {
			return resp, err
		}
	}
	for _, s := range r.ResourceSpans[0].ScopeSpans[0].Spans {
		if c.spans == nil {
			c.spans = map[string]int{}
		}
		c.spans[s.Name]++
	}
	return response(200, &collectorpb.ExportTraceServiceResponse{}), nil
}

func started(t *testing.T, c *collector, failed func(error)) *Exporter {
	t.Helper()
	x, err := New(Options{Endpoint: "http://collector:4318", Header: http.Header{"Authorization": {"Bearer x"}}, Node: "n1", Topic: orders, Transport: c, Failed: failed})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// message exports a publish and its commit, which are two spans.
func message(x *Exporter, o seq.Offset) {
	id := seq.NewMessageID(3, o)
	for _, w := range []trace.What{trace.Published, trace.Committed} {
		x.Export(trace.Exported{Event: trace.Event{What: w, Time: at(1).UnixNano(), Message: trace.Message{Incarnation: 1, ID: id}}, Origin: id, Noted: at(1)})
	}
}

func TestSpansArePosted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		x := started(t, c, nil)
		for o := range seq.Offset(1000) {
			message(x, o)
		}
		time.Sleep(batchDelay + time.Millisecond)
		synctest.Wait()
		if s := x.Stats(); s.Sent != 2000 || s.Waiting != 0 || c.spans["publish orders"] != 1000 || c.asked != 4 {
			t.Errorf("%+v, %v in %d requests", s, c.spans, c.asked)
		}
		if r := c.last; r.URL.String() != "http://collector:4318/v1/traces" || r.Header.Get("Authorization") != "Bearer x" ||
			r.Header.Get("Content-Type") != "application/x-protobuf" || r.Method != http.MethodPost {
			t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
		}
		message(x, 1000)
		x.Close()
		x.Close()
		message(x, 1001)
		if s := x.Stats(); s.Sent != 2002 {
			t.Errorf("closed: %+v", s)
		}
	})
}

// A collector that was unavailable for a while gets the spans that fitted into the queue meanwhile.
func TestCollectorIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		c := &collector{answer: func(n int) (*http.Response, error) {
			switch n {
			case 1:
				return nil, errors.New("connection refused")
			case 2:
				return response(503, nil), nil
			case 3:
				return response(429, nil, "Retry-After", "7"), nil
			}
			return nil, nil
		}}
		x := started(t, c, func(err error) { told = append(told, err.Error()) })
		begun := time.Now()
		message(x, 1)
		time.Sleep(batchDelay + 1*time.Second + 2*time.Second + 7*time.Second - time.Millisecond)
		synctest.Wait()
		if s := x.Stats(); s.Sent != 0 || s.Waiting != 2 {
			t.Errorf("after %v: %+v", time.Since(begun), s)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if s := x.Stats(); s.Sent != 2 || s.Unsent != 0 || len(told) != 3 {
			t.Errorf("after %v: %+v, told %q", time.Since(begun), s, told)
		}
		x.Close()
	})
}

// A hung or unreachable collector costs bounded memory and no time.
func TestHungCollectorDelaysNothing(t *testing.T) {
	for _, kind := range []string{"hangs", "refuses"} {
		synctest.Test(t, func(t *testing.T) {
			c := &collector{}
			if c.hang.Store(kind == "hangs"); kind == "refuses" {
				c.answer = func(int) (*http.Response, error) { return nil, errors.New("connection refused") }
			}
			x := started(t, c, nil)
			begun := time.Now()
			const many = 100_000
			for o := range seq.Offset(many) {
				message(x, o)
				if o%1000 == 0 {
					synctest.Wait()
				}
			}
			if d := time.Since(begun); d != 0 {
				t.Errorf("exporting took %v", d)
			}
			synctest.Wait()
			s := x.Stats()
			if s.Waiting > (maxBatches+1)*batchSpans || s.Unsent < many || s.Unsent+uint64(s.Waiting) > 2*many {
				t.Errorf("%s: %+v", kind, s)
			}
			time.Sleep(requestTime + time.Second)
			begun = time.Now()
			x.Close()
			if d := time.Since(begun); d > 0 {
				t.Errorf("%s: closing took %v", kind, d)
			}
			if s := x.Stats(); s.Waiting != 0 || s.Unsent+s.Missed/2 < 2*many-1 {
				t.Errorf("%s: %+v", kind, s)
			}
		})
	}
}

// A collector that has just begun to hang has a second.
func TestClosingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		x := started(t, c, nil)
		message(x, 1)
		time.Sleep(2 * batchDelay)
		c.hang.Store(true)
		message(x, 2)
		begun := time.Now()
		x.Close()
		if d := time.Since(begun); d != closeTime {
			t.Errorf("closing took %v", d)
		}
		if s := x.Stats(); s.Sent != 2 || s.Unsent != 2 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestRefusedSpansAreCounted(t *testing.T) {
	for name, test := range map[string]struct {
		answer         *http.Response
		sent, rejected uint64
	}{
		"refused":    {response(400, nil), 0, 2},
		"redirected": {response(302, nil, "Location", "http://elsewhere"), 0, 2},
		"partly": {response(200, &collectorpb.ExportTraceServiceResponse{
			PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "too old"},
		}), 1, 1},
		"absurd": {response(200, &collectorpb.ExportTraceServiceResponse{
			PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: 1 << 60},
		}), 0, 2},
		"negative": {response(200, &collectorpb.ExportTraceServiceResponse{
			PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: -5},
		}), 2, 0},
		"garbage": {&http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("\xff\xff"))}, 2, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			told := 0
			c := &collector{answer: func(int) (*http.Response, error) { return test.answer, nil }}
			x := started(t, c, func(error) { told++ })
			message(x, 1)
			time.Sleep(2 * batchDelay)
			synctest.Wait()
			if s := x.Stats(); s.Sent != test.sent || s.Rejected != test.rejected || s.Unsent != 0 || (told > 0) != (test.rejected > 0) {
				t.Errorf("%s: %+v, told %d", name, s, told)
			}
			x.Close()
		})
	}
}

func TestNoExporterDoesNothing(t *testing.T) {
	var x *Exporter
	x.Export(trace.Exported{})
	x.Close()
	if x.Stats() != (Stats{}) {
		t.Error(x.Stats())
	}
}

func TestEndpointsAndHeadersAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"http://localhost:4318":       "http://localhost:4318/v1/traces",
		"http://localhost:4318/":      "http://localhost:4318/v1/traces",
		"https://o.example/a":         "https://o.example/a/v1/traces",
		"https://o.example/v1/traces": "https://o.example/v1/traces",
		"localhost:4318":              "", "": "", "grpc://h:4317": "", "http://": "", "http://:4318": "", "http://u:p@h": "", "http://h?x=1": "", "http://h\n": "",
	} {
		if got, err := ParseEndpoint(text); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	h, err := ParseHeaders("# credentials\n\nAuthorization: Bearer a:b\nx-team:  blue \r\n")
	if err != nil || h.Get("Authorization") != "Bearer a:b" || h.Get("X-Team") != "blue" || len(h) != 2 {
		t.Errorf("%v, %v", h, err)
	}
	for _, text := range []string{"secret", ": secret", "a b: secret", "a: sec\x01ret"} {
		if _, err := ParseHeaders(text); err == nil || strings.Contains(err.Error(), "sec") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := New(Options{Endpoint: "x"}); err == nil {
		t.Error("an endpoint that is none")
	}
}

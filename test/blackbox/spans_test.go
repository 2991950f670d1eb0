package blackbox

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector accepts spans by OTLP over HTTP.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span
}

func startCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		var request collectorpb.ExportTraceServiceRequest
		if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(data, &request) != nil {
			http.Error(w, "not a request of OTLP", http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, rs := range request.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

// tree lists the spans of a trace, sorted by name, each with the name of its parent.
func (c *collector) tree(trace string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := map[string]string{}
	for _, s := range c.spans {
		names[string(s.SpanId)] = s.Name
	}
	var lines []string
	for _, s := range c.spans {
		if trace != "" && fmt.Sprintf("%x", s.TraceId) != trace {
			continue
		}
		parent := names[string(s.ParentSpanId)]
		if parent == "" {
			parent = fmt.Sprintf("%x", s.ParentSpanId)
		}
		lines = append(lines, s.Name+" < "+parent)
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// Each step of a message is a child span of its publisher's span, across a requeue, a timeout and a
// restart of the node.
func TestSpansDescribeAMessage(t *testing.T) {
	t.Parallel()
	c := startCollector(t)
	n := startNodeOn(t, t.TempDir(), "--otlp-endpoint", c.URL)
	n.ctl(0, "topic", "create", "orders", "--ext", "--trace", "on")
	n.ctl(0, "channel", "create", "orders/bill")
	const publisher = "b7ad6b7169203331"
	for trace, flags := range map[string]string{"0af7651916cd43dd8448eb211c80319c": "01", "0af7651916cd43dd8448eb211c80319d": "00"} {
		n.publishWith("orders", "traceparent", "00-"+trace+"-"+publisher+"-"+flags)
	}
	w := n.consumer("orders", "bill", 1, `{"client_id":"w"}`)
	for range 4 {
		w.answerOnce(t)
	}
	n.restart(n.stop)
	want := "commit orders < publish orders, deliver orders < publish orders, deliver orders < publish orders, " +
		"finish orders < deliver orders, publish orders < " + publisher + ", requeue orders < deliver orders"
	defer func() {
		if t.Failed() {
			t.Logf("spans: %s", c.tree(""))
		}
	}()
	eventually(t, "all spans are at the collector", func() bool { return c.tree("") == want })
	if got := n.get("/metrics"); !strings.Contains(got, "brokerd_otlp_spans_sent_total 0") {
		t.Error("no metric of the spans")
	}
}

// publishWith publishes a message with a header.
func (n *node) publishWith(topic, key, value string) {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, "http://"+n.address("HTTP")+"/pub_ext?topic="+topic, strings.NewReader("m"))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("X-NSQEXT-"+key, value)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		n.t.Fatal(resp.Status)
	}
}

// answerOnce receives a message, and requeues it the first time.
func (w *wire) answerOnce(t *testing.T) {
	t.Helper()
	for {
		kind, data, err := w.next(patience)
		if err != nil {
			t.Fatal(err)
		}
		if kind == frameMessage {
			command := "FIN " + data[10:26]
			if data[8:10] == "\x00\x01" {
				command = "REQ " + data[10:26] + " 0"
			}
			if _, err := fmt.Fprintf(w, "%s\n", command); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

// Neither a collector that accepts connections and never answers, nor an unreachable one, delays
// publishers or the stop of the node.
func TestHungCollectorDelaysNothing(t *testing.T) {
	for _, kind := range []string{"hangs", "absent"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			collector := "127.0.0.1:1" // the system gives it to no listener
			if kind == "hangs" {
				collector = occupied(t)
			}
			n := startNodeOn(t, t.TempDir(), "--otlp-endpoint", "http://"+collector)
			n.ctl(0, "topic", "create", "orders", "--trace", "on")
			body := strings.Repeat("m\n", 10_000)
			for range 10 {
				n.post("/mpub?topic=orders", body)
			}
			eventually(t, "spans are dropped", func() bool {
				text := n.get("/metrics")
				return strings.Contains(text, `brokerd_otlp_spans_dropped_total{reason="unsent"} `) &&
					!strings.Contains(text, `brokerd_otlp_spans_dropped_total{reason="unsent"} 0`)
			})
			begun := time.Now()
			n.stop()
			if d := time.Since(begun); d > 9*time.Second { // a request that it waited for would take 10
				t.Errorf("the node took %v to stop", d)
			}
		})
	}
}

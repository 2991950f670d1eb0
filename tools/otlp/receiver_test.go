package otlp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

const patience = time.Minute

// sink is the receiver's backend. It refuses the first n requests.
type sink struct {
	consumertest.TracesSink
	refuse  atomic.Int32
	refused atomic.Int32
}

func (s *sink) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	if s.refuse.Add(-1) >= 0 {
		s.refused.Add(1)
		return errors.New("not now")
	}
	return s.TracesSink.ConsumeTraces(ctx, td)
}

// free returns an address on which nobody listens, outside the range from which the system chooses the ports of
// connections: one of them could have it otherwise before the program listens there.
func free(t *testing.T) string {
	t.Helper()
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			defer func() { _ = l.Close() }()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

func startReceiver(t *testing.T, next consumer.Traces) (endpoint string) {
	t.Helper()
	address := free(t)
	f := otlpreceiver.NewFactory()
	c := f.CreateDefaultConfig()
	given := map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": address}}}
	if err := confmap.NewFromStringMap(given).Unmarshal(c); err != nil {
		t.Fatal(err)
	}
	r, err := f.CreateTraces(t.Context(), receivertest.NewNopSettings(f.Type()), c, next)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return "http://" + address
}

// startBroker starts bin/brokerd and returns the address of its HTTP interface.
func startBroker(t *testing.T, args ...string) (url string, stop func()) {
	t.Helper()
	const any = "127.0.0.1:0"
	cmd := exec.Command("../../bin/brokerd", append([]string{
		"--data-dir", filepath.Join(t.TempDir(), "data"), "--tcp-address", any, "--http-address", any, "--lookup-address", any,
		"--cluster-address", any, "--disk-reserve", "0", "--log-format", "json",
	}, args...)...)
	logs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_, _ = cmd.Process.Wait()
	}
	t.Cleanup(stop)
	listening := regexp.MustCompile(`"protocol":"HTTP","address":"([^"]*)"`)
	lines := bufio.NewScanner(logs)
	for lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			url = "http://" + m[1]
		}
		if strings.Contains(lines.Text(), `"msg":"ready"`) {
			go func() {
				for lines.Scan() {
				}
			}()
			return url, stop
		}
	}
	t.Fatal("brokerd did not begin to serve")
	return "", nil
}

func brokerctl(t *testing.T, url string, args ...string) {
	t.Helper()
	cmd := exec.Command("../../bin/brokerctl", args...)
	cmd.Env = append(os.Environ(), "BROKERCTL_ADDR="+url)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("brokerctl %v: %v\n%s", args, err, out)
	}
}

// TestCollectorTakesSpans publishes, delivers and finishes a message, with a receiver that refuses
// at first.
func TestCollectorTakesSpans(t *testing.T) {
	s := &sink{}
	s.refuse.Store(2)
	url, stop := startBroker(t, "--node-id", "n1", "--otlp-endpoint", startReceiver(t, s))
	brokerctl(t, url, "topic", "create", "orders", "--ext", "--trace", "on")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/pub_ext?topic=orders", strings.NewReader("m"))
	if err != nil {
		t.Fatal(err)
	}
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	req.Header.Set("X-NSQEXT-traceparent", "00-"+trace+"-"+parent+"-01")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	brokerctl(t, url, "message", "tail", "orders/bill", "-n", "1")
	tick, late := time.NewTicker(10*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for s.SpanCount() < 4 {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d spans", s.SpanCount())
		}
	}
	stop()
	if s.refused.Load() != 2 || s.SpanCount() != 4 {
		t.Errorf("%d refused, %d spans", s.refused.Load(), s.SpanCount())
	}
	parents, ids := map[string]string{}, map[string]string{}
	for _, td := range s.AllTraces() {
		for _, rs := range td.ResourceSpans().All() {
			if got := fmt.Sprint(rs.Resource().Attributes().AsRaw()); !strings.Contains(got, "service.instance.id:n1") || !strings.Contains(got, "service.name:brokerd") {
				t.Errorf("resource: %s", got)
			}
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					checkSpan(t, span, trace)
					ids[span.Name()], parents[span.Name()] = span.SpanID().String(), span.ParentSpanID().String()
				}
			}
		}
	}
	for name, of := range map[string]string{
		"publish orders": parent, "commit orders": ids["publish orders"], "deliver orders": ids["publish orders"], "finish orders": ids["deliver orders"],
	} {
		if parents[name] != of || of == "" {
			t.Errorf("%s is below %s, want %s", name, parents[name], of)
		}
	}
}

func checkSpan(t *testing.T, s ptrace.Span, trace string) {
	t.Helper()
	a := s.Attributes()
	is := func(key, want string) {
		if v, ok := a.Get(key); !ok || v.Type() != pcommon.ValueTypeStr || v.Str() != want {
			t.Errorf("%s: %s is %q, want %q", s.Name(), key, v.AsString(), want)
		}
	}
	is("messaging.system", "brokerd")
	is("messaging.destination.name", "orders")
	is("messaging.destination.partition.id", "0")
	if id, _ := a.Get("messaging.message.id"); len(id.Str()) != 16 {
		t.Errorf("%s: id %q", s.Name(), id.Str())
	}
	if s.TraceID().String() != trace || s.EndTimestamp() < s.StartTimestamp() || time.Since(s.StartTimestamp().AsTime()) > time.Hour {
		t.Errorf("%s: trace %s, %v to %v", s.Name(), s.TraceID(), s.StartTimestamp(), s.EndTimestamp())
	}
}

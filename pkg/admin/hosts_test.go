package admin

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/topic"
)

func TestOnlyOwnHostNamesAreAnswered(t *testing.T) {
	h := serverOf(t, newFake("t")).Handler()
	guarded := web.NewHosts([]string{"mq.example.org", ".in.example.net", "Node-7.Example.com."}).Guard(h, Refuse)
	for host, allowed := range map[string]bool{
		"": true, "localhost": true, "localhost:4151": true, "nsqd:4151": true, "127.0.0.1:4151": true, "10.1.2.3": true,
		"[::1]:4151": true, "::1": true, "api.localhost": true, "nsqd.default.svc": true, "nsqd.default.svc.cluster.local:4151": true,
		"mq.example.org": true, "MQ.Example.ORG:4151": true, "mq.example.org.": true, "node-7.example.com": true, "a.in.example.net": true,
		"example.org": false, "evil.example.org:4151": false, "in.example.net": false, "mq.example.org.evil.com": false,
		"127.0.0.1.evil.com": false, "localhost.evil.com": false, "xin.example.net": false, "xmq.example.org": false,
	} {
		for _, target := range []string{"/stats", "/v1/topics", "/pub?topic=t", "/metrics"} {
			r := httptest.NewRequest("GET", target, nil)
			r.Host = host
			w := httptest.NewRecorder()
			guarded.ServeHTTP(w, r)
			if refused := w.Code == 403; refused == allowed {
				t.Errorf("host %q, %s: got %d %s", host, target, w.Code, w.Body)
			}
		}
	}
	r := httptest.NewRequest("GET", "/stats", nil)
	r.Host = "evil.com"
	w := httptest.NewRecorder()
	web.NewHosts([]string{"*"}).Guard(h, Refuse).ServeHTTP(w, r)
	if w.Code != 200 {
		t.Errorf("where every name is allowed: %d", w.Code)
	}
	for _, target := range []string{"/ping", "/livez"} {
		r := httptest.NewRequest("GET", target, nil)
		r.Host = "balancer.example.com"
		w := httptest.NewRecorder()
		guarded.ServeHTTP(w, r)
		if w.Code != 200 {
			t.Errorf("a probe: %s: %d", target, w.Code)
		}
	}
}

func TestOptionsAreChangedFromChosenNetworksOnly(t *testing.T) {
	s := serverOf(t, newFake(), func(o *Options) { o.ConfigFrom = nil })
	if w := ask(s.Handler(), "PUT", "/config/nsqlookupd_tcp_addresses", `["a:1"]`); w.Code != 403 || w.Body.String() != message("FORBIDDEN") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestLookupCreatesNoTopic(t *testing.T) {
	f := newFake()
	s := serverOf(t, f)
	for _, h := range []http.Handler{s.Handler(), s.LookupHandler()} {
		if w := ask(h, "GET", "/lookup?topic=new&access=w", ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"0":{`) {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		if w := ask(h, "GET", "/lookup?topic=new&access=w&partition=1", ""); w.Code != 404 {
			t.Errorf("a partition that it would not have: %d %s", w.Code, w.Body)
		}
	}
	if topics := f.Topics(); len(topics) > 0 {
		t.Errorf("made %s", topics[0].Name)
	}
	f.noCreate = true
	if w := ask(s.Handler(), "GET", "/lookup?topic=new&access=w", ""); w.Code != 404 {
		t.Errorf("where publishing makes none: %d %s", w.Code, w.Body)
	}
}

// upload sends a body slowly, so that it is refused before its end, and returns the head of the
// answer.
func upload(t *testing.T, address, target string, size int) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	r, err := http.NewRequest("POST", "http://"+address+target, strings.NewReader(strings.Repeat("x", size)))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Write(conn); err != nil {
		t.Errorf("%s: the body is not taken: %v", target, err)
	}
	answer := make([]byte, 12)
	if _, err := conn.Read(answer); err != nil {
		t.Errorf("%s: no answer: %v", target, err)
	}
	return string(answer)
}

func TestOversizeRequestSenderSeesError(t *testing.T) {
	f := newFake("t")
	s := serverOf(t, f, func(o *Options) {
		o.Limits, o.Memory = web.Limits{MaxMessage: 1 << 20, MaxBody: 24 << 20}, limit.NewMemory(1<<20)
	})
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	address := server.Listener.Addr().String()
	for target, want := range map[string]string{
		"/pub?topic=t":          "HTTP/1.1 413",
		"/mpub?topic=t":         "HTTP/1.1 413",
		"/v1/topics/t/messages": "HTTP/1.1 413",
	} {
		if got := upload(t, address, target, 26<<20); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
	if got := upload(t, address, "/mpub?topic=t", 23<<20); got != "HTTP/1.1 503" {
		t.Errorf("over the budget of all bodies: %q", got)
	}
}

func TestBusyRefusalHasRetryAfter(t *testing.T) {
	f := newFake("t")
	f.receipt = func(publish.Request) *topic.Receipt { return &topic.Receipt{Err: failure.QueueFull} }
	if w := ask(serverOf(t, f).Handler(), "POST", "/pub?topic=t", "x"); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

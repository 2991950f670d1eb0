package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func TestLookupDaemonAnswersOnlyToItsOwnNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nsqlookupd.cfg")
	if err := os.WriteFile(file, []byte("http_allowed_hosts = [\"a.example.net\", \"b.example.net\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	given, err := parseStandIn(nsqlookupdName, nsqlookupdOptions(), []string{
		"-config", file, "-broadcast-address=lookup.example.org",
		"-http-allowed-hosts=mq.example.org,.in.example.org", "--http-allowed-hosts=c.example.net",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	d, err := lookupDaemonFrom(given, "machine.example.com")
	if err != nil {
		t.Fatal(err)
	}
	h := d.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func(path, host, origin string) (int, string) {
		r := httptest.NewRequest(http.MethodPost, path, nil)
		r.Host = host
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for host, want := range map[string]int{
		"": 200, "127.0.0.1:4161": 200, "[::1]:4161": 200, "nsqlookupd:4161": 200, "nsqlookupd.default.svc": 200,
		"lookup.example.org:4161": 200, "machine.example.com": 200, "mq.example.org": 200, "x.in.example.org": 200,
		"a.example.net": 200, "b.example.net": 200, "c.example.net": 200,
		"evil.example.org": 403, "in.example.org": 403, "127.0.0.1.evil.com": 403, "lookup.example.org.evil.com": 403,
	} {
		if code, body := ask("/topic/delete?topic=t", host, ""); code != want {
			t.Errorf("host %q: %d %s, want %d", host, code, body, want)
		}
	}
	if code, body := ask("/topics", "evil.com", ""); code != 403 || body != `{"message":"HOST_NOT_ALLOWED"}` {
		t.Errorf("refused with %d %s", code, body)
	}
	if code, _ := ask("/ping", "balancer.example.com", ""); code != 200 {
		t.Errorf("a probe: %d", code)
	}
	if code, _ := ask("/topic/delete?topic=t", "127.0.0.1", "http://evil.com"); code != 403 {
		t.Errorf("a page of another origin: %d", code)
	}
}

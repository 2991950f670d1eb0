package auth

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const joe = `{"ttl":60,"identity":"joe","identity_url":"http://joe","authorizations":[{"topic":"^t_","channels":[".*"],"permissions":["subscribe","publish"]}]}`

// closedAddress refuses connections: no test listens on a port below 1024, and the system assigns none.
const closedAddress = "127.0.0.1:1"

func newClient(t *testing.T, opts Options) *Client {
	t.Helper()
	c := New(opts)
	t.Cleanup(c.Close)
	return c
}

func TestAuthQueryFormat(t *testing.T) {
	q := Query{RemoteIP: "10.0.0.1", TLS: true, CommonName: "cn", Secret: "s&t"}
	for _, post := range []bool{false, true} {
		var got url.Values
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept") != "application/vnd.nsq; version=1.0" {
				t.Errorf("Accept: %s", r.Header.Get("Accept"))
			}
			if r.URL.Path != "/auth" {
				t.Errorf("path %s", r.URL.Path)
			}
			got = r.URL.Query()
			if r.Method == http.MethodPost {
				if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
					t.Error(err)
				}
			}
			_, _ = io.WriteString(w, joe)
		}))
		c := newClient(t, Options{Addresses: []string{strings.TrimPrefix(srv.URL, "http://")}, Post: post})
		grant, err := c.Grant(t.Context(), q, time.Now())
		srv.Close()
		if err != nil || grant.Identity != "joe" || grant.IdentityURL != "http://joe" || grant.Permissions() != 1 {
			t.Fatalf("%+v, %v", grant, err)
		}
		want := url.Values{"remote_ip": {"10.0.0.1"}, "tls": {"true"}, "common_name": {"cn"}, "secret": {"s&t"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("post %v: %s", post, diff)
		}
	}
}

func TestInvalidAuthAnswersAreErrors(t *testing.T) {
	for _, tt := range []struct{ name, answer string }{
		{"no JSON", "hello"},
		{"no ttl", `{}`},
		{"negative ttl", `{"ttl":-1}`},
		{"topic pattern", `{"ttl":1,"authorizations":[{"topic":"(","channels":[],"permissions":[]}]}`},
		{"channel pattern", `{"ttl":1,"authorizations":[{"topic":"","channels":["("],"permissions":[]}]}`},
		{"permission", `{"ttl":1,"authorizations":[{"topic":"","channels":[],"permissions":["admin"]}]}`},
		{"too long", strings.Repeat(" ", maxAnswer+1)},
	} {
		if len(tt.answer) <= maxAnswer {
			if _, err := parse([]byte(tt.answer)); err == nil {
				t.Errorf("%s: accepted", tt.name)
			}
		}
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tt.answer) }))
		_, err := newClient(t, Options{Addresses: []string{srv.URL}}).Grant(t.Context(), Query{Secret: "hidden"}, time.Now())
		srv.Close()
		if err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestNextAuthServerIsTried(t *testing.T) {
	angry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	defer angry.Close()
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, joe) }))
	defer good.Close()
	c := newClient(t, Options{Addresses: []string{closedAddress, angry.URL, good.URL}})
	for range 10 { // anywhere in the name
		if _, err := c.Grant(t.Context(), Query{}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	c = newClient(t, Options{Addresses: []string{closedAddress, angry.URL}})
	if _, err := c.Grant(t.Context(), Query{Secret: "hidden"}, time.Now()); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("%v", err)
	}
	if _, err := newClient(t, Options{}).Grant(t.Context(), Query{}, time.Now()); err == nil {
		t.Error("a grant without a server")
	}
}

func TestRefusalNamesHTTPSPort(t *testing.T) {
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("secret") != "s" {
			t.Error("the query was lost")
		}
		_, _ = io.WriteString(w, joe)
	}))
	defer secure.Close()
	u, err := url.Parse(secure.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprintf(w, `{"message":"TLS_REQUIRED","https_port":%d}`, port)
	}))
	defer plain.Close()
	c := newClient(t, Options{Addresses: []string{plain.URL}, TLS: &tls.Config{InsecureSkipVerify: true}}) //nolint:gosec // its own certificate
	if _, err := c.Grant(t.Context(), Query{Secret: "s"}, time.Now()); err != nil {
		t.Error(err)
	}
}

func TestGrantAllows(t *testing.T) {
	for _, tt := range []struct {
		entries        string
		topic, channel string
		want           bool
	}{
		{`{"topic":"^t_","channels":[".*"],"permissions":["publish"]}`, "t_a", "", true},
		{`{"topic":"^t_","channels":[".*"],"permissions":["publish"]}`, "x", "", false},
		{`{"topic":"^t_","channels":[".*"],"permissions":["publish"]}`, "t_a", "c", false},
		{`{"topic":"t","channels":["c"],"permissions":["subscribe"]}`, "at", "acb", true}, // searched, not anchored
		{`{"topic":"t","channels":["c"],"permissions":["subscribe"]}`, "t", "d", false},
		{`{"topic":"t","channels":[],"permissions":["publish"]}`, "t", "", false},
		{`{"topic":"t","channels":["^ch$"],"permissions":["publish"]}`, "t", "", false},
		{`{"topic":"x","channels":[".*"],"permissions":["publish"]},{"topic":"t","channels":[""],"permissions":["publish"]}`, "t", "", true},
		{``, "t", "", false},
	} {
		g, err := parse([]byte(`{"ttl":1,"authorizations":[` + tt.entries + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Allows(tt.topic, tt.channel); got != tt.want {
			t.Errorf("%s: Allows(%q, %q) = %v", tt.entries, tt.topic, tt.channel, got)
		}
	}
}

func TestGrantExpires(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, joe) }))
	defer srv.Close()
	now := time.Now()
	g, err := newClient(t, Options{Addresses: []string{srv.URL}}).Grant(t.Context(), Query{}, now)
	if err != nil {
		t.Fatal(err)
	}
	if g.Expired(now.Add(59*time.Second)) || !g.Expired(now.Add(60*time.Second)) {
		t.Error("the ttl of 60 s is not kept")
	}
}

// TestErrorsContainNoSecret: the errors are logged.
func TestErrorsContainNoSecret(t *testing.T) {
	refuses := httptest.NewServer(http.NotFoundHandler())
	defer refuses.Close()
	host := strings.TrimPrefix(refuses.URL, "http://")
	for _, address := range []string{
		"http://ops:p4ss@" + closedAddress + "/auth?key=p4ss", "http://ops:p4ss@" + host + "/auth?key=p4ss", "http://ops:p4ss@[::1/auth", "http://ops:p4ss/x@" + closedAddress, "http://127.0.0.1:1/p4ss@" + closedAddress, "p4ss@" + closedAddress, closedAddress,
	} {
		_, err := newClient(t, Options{Addresses: []string{address}}).Grant(t.Context(), Query{Secret: "s3cret"}, time.Now())
		if err == nil || strings.Contains(err.Error(), "p4ss") || strings.Contains(err.Error(), "s3cret") || !strings.HasPrefix(err.Error(), "auth server ") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/server/auth"
)

// authHarness is a server whose auth server knows three secrets: good, none, and brief, whose grant
// lasts a second. It refuses all others.
func authHarness(t *testing.T) (*harness, *atomic.Int64) {
	t.Helper()
	return authHarnessWith(t, func(*Options) {})
}

// authHarnessWith is authHarness with other options.
func authHarnessWith(t *testing.T, change func(*Options)) (*harness, *atomic.Int64) {
	t.Helper()
	queries := new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries.Add(1)
		ttl := 3600
		switch r.URL.Query().Get("secret") {
		case "none":
			_, _ = fmt.Fprint(w, `{"ttl":1,"authorizations":[]}`)
			return
		case "brief":
			ttl = 1
		case "good":
		default:
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = fmt.Fprintf(w, `{"ttl":%d,"identity":"joe","identity_url":"u","authorizations":[{"topic":"^t","channels":["^$","^c$"],"permissions":["subscribe","publish"]}]}`, ttl)
	}))
	t.Cleanup(srv.Close)
	client := auth.New(auth.Options{Addresses: []string{srv.URL}})
	t.Cleanup(client.Close)
	o := Options{Auth: client}
	change(&o)
	return newHarness(t, o), queries
}

func TestAuthExchanges(t *testing.T) {
	const joe = `{"identity":"joe","identity_url":"u","permission_count":1}`
	good := "AUTH\n" + sized("good")
	h, _ := authHarness(t)
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"good", good + "PUB t\n" + sized("a") + mpub("t", "a") + "SUB t c\n", []string{joe, "OK", "OK", "OK"}},
		{"bad secret", "AUTH\n" + sized("bad"), []string{"E_AUTH_FAILED AUTH failed", "EOF"}},
		{"no rights", "AUTH\n" + sized("none"), []string{"E_UNAUTHORIZED AUTH no authorizations found", "EOF"}},
		{"twice", good + good, []string{joe, "E_INVALID AUTH already set", "EOF"}},
		{"PUB first", "PUB t\n" + sized("a"), []string{"E_AUTH_FIRST AUTH required before PUB", "EOF"}},
		{"PUB without body is read first", "PUB t\n\x00\x00\x00\x00", []string{"E_BAD_MESSAGE PUB invalid message body size 0", "EOF"}},
		{"DPUB first", "DPUB t 1\n" + sized("a"), []string{"E_AUTH_FIRST AUTH required before DPUB", "EOF"}},
		{"MPUB first, before its body", "MPUB t\n", []string{"E_AUTH_FIRST AUTH required before MPUB", "EOF"}},
		{"SUB first", "SUB t c\n", []string{"E_AUTH_FIRST AUTH required before SUB", "EOF"}},
		{"PUB elsewhere", good + "PUB x\n" + sized("a"), []string{joe, `E_UNAUTHORIZED AUTH failed for PUB on "x" ""`, "EOF"}},
		{"MPUB elsewhere", good + "MPUB x\n", []string{joe, `E_UNAUTHORIZED AUTH failed for MPUB on "x" ""`, "EOF"}},
		{"SUB elsewhere", good + "SUB t d\n", []string{joe, `E_UNAUTHORIZED AUTH failed for SUB on "t" "d"`, "EOF"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := h.dial(t)
			w.send(tt.in)
			w.expect(tt.want...)
		})
	}
	if h.Stats().AuthFailures == 0 {
		t.Error("failures are not counted")
	}
	w := h.dial(t)
	w.send("IDENTIFY\n" + sized(`{"feature_negotiation":true}`))
	if _, data, err := nsq.NewFrameReader(w, 1<<10).Next(); err != nil || !strings.Contains(string(data), `"auth_required":true`) {
		t.Errorf("%s, %v", data, err)
	}
}

func TestValidGrantIsNotRequestedAgain(t *testing.T) {
	h, queries := authHarness(t)
	w := h.dial(t)
	w.send("AUTH\n" + sized("good"))
	w.frame()
	for range 10 {
		w.send("PUB t\n" + sized("a"))
		w.expect("OK")
	}
	if n := queries.Load(); n != 1 {
		t.Errorf("%d queries", n)
	}
}

func TestExpiredGrantIsRequestedAgain(t *testing.T) {
	h, queries := authHarness(t)
	w := h.dial(t)
	w.send("AUTH\n" + sized("brief"))
	w.frame()
	<-time.After(1100 * time.Millisecond)
	w.send("PUB t\n" + sized("a"))
	w.expect("OK")
	if n := queries.Load(); n != 2 {
		t.Errorf("%d queries after the end of the ttl", n)
	}
}

package admin

import (
	"net/http"
	"testing"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
)

// TestSystemUserIsRecordedWhileAccessIsOff, as what a client says of itself, and only there.
func TestSystemUserIsRecordedWhileAccessIsOff(t *testing.T) {
	f := newFake("t")
	s, a, tokens := guardedServer(t, f)
	pause := func(want string, header ...string) {
		t.Helper()
		if w := ask(s.Handler(), http.MethodPost, "/v1/topics/t/pause", "", append(header, api.SystemUserHeader, "joe")...); w.Code >= 300 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		acts := f.Journal().Acts()
		if got := acts[len(acts)-1].Identity; got != want {
			t.Errorf("recorded as %q, want %q", got, want)
		}
	}
	pause("ops", "Authorization", "Bearer "+tokens["ops"])
	if err := a.Change(t.Context(), access.Change{Verb: access.Disable}); err != nil {
		t.Fatal(err)
	}
	pause("os:joe")
	pause("ops", "Authorization", "Bearer "+tokens["ops"])
}

// TestConnectionsWithoutIdentityAreNotKept: over HTTP, a client without credentials uses no connection for longer than
// its request.
func TestConnectionsWithoutIdentityAreNotKept(t *testing.T) {
	s, a, tokens := guardedServer(t, newFake("t"))
	for _, tt := range []struct {
		user, path string
		closed     bool
	}{
		{"", "/ping", true},
		{"", "/lookup?topic=t", true},
		{"", "/v1/topics", true},
		{"", "/nothing", true},
		{"wrong", "/v1/topics", true},
		{"reader", "/v1/topics", false},
		{"reader", "/ping", false},
		{"publisher", "/v1/users", false},
	} {
		w := askAs(s.Handler(), tokens[tt.user], http.MethodGet, tt.path, "")
		if closed := w.Header().Get("Connection") == "close"; closed != tt.closed {
			t.Errorf("%q %s: closed %v", tt.user, tt.path, closed)
		}
	}
	if err := a.Change(t.Context(), access.Change{Verb: access.Disable}); err != nil {
		t.Fatal(err)
	}
	if w := ask(s.Handler(), http.MethodGet, "/ping", ""); w.Header().Get("Connection") != "" {
		t.Error("closed while access control is off")
	}
}

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// probed answers every probe with a status and a body.
func probed(t *testing.T, status int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != api.ProbeReady && r.URL.Path != api.ProbeLive {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestOneNodeIsChecked(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	const sick = `{"ok":false,"reasons":[{"code":"draining","count":1,"what":"the node drains"}]}`
	for _, c := range []struct {
		name, address string
		args          []string
		exit          int
		stdout        string
	}{
		{"ready", probed(t, 200, `{"ok":true,"reasons":[]}`), nil, exitOK, "ready\n"},
		{"live", probed(t, 200, `{"ok":true,"reasons":[]}`), []string{"--live"}, exitOK, "live\n"},
		{"quiet", probed(t, 200, `{"ok":true,"reasons":[]}`), []string{"-q"}, exitOK, ""},
		{"not ready", probed(t, 503, sick), nil, exitUnhealthy, "not ready\ndraining: the node drains\n"},
		{"as JSON", probed(t, 503, sick), []string{"-o", "json"}, exitUnhealthy, sick + "\n"},
		{"as a name", probed(t, 503, sick), []string{"-o", "name", "--live"}, exitUnhealthy, "not live\n"},
		{"somebody else", probed(t, 404, "<html>"), nil, exitFailed, ""},
		{"nobody", gone.URL, nil, exitUnavailable, ""},
	} {
		r := newFakeBroker(t).brokerctl(t, append([]string{"check", "node", "--addr", c.address}, c.args...)...)
		if r.exit != c.exit || r.stdout != c.stdout {
			t.Errorf("%s: exit %d, want %d; stdout %q, want %q; stderr %q", c.name, r.exit, c.exit, r.stdout, c.stdout, r.stderr)
		}
		if (r.stderr != "") != (c.exit == exitFailed || c.exit == exitUnavailable) || strings.Contains(r.stderr, "%!") {
			t.Errorf("%s: stderr %q", c.name, r.stderr)
		}
	}
}

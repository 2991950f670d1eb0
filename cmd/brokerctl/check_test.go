package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// closedURL refuses connections: no test listens on a port below 1024, and the system assigns none.
const closedURL = "http://127.0.0.1:1"

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

func TestChecksOfOneNode(t *testing.T) {
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
		{"not ready", probed(t, 503, sick), nil, 2, "not ready\ndraining: the node drains\n"},
		{"as JSON", probed(t, 503, sick), []string{"-o", "json"}, 2, sick + "\n"},
		{"as a name", probed(t, 503, sick), []string{"-o", "name", "--live"}, 2, "not live\n"},
		{"somebody else", probed(t, 404, "<html>"), nil, 3, ""},
		{"connection refused", closedURL, nil, 2, ""},
	} {
		r := newFakeBroker(t).brokerctl(t, append([]string{"check", "node", "--addr", c.address}, c.args...)...)
		if r.exit != c.exit || r.stdout != c.stdout {
			t.Errorf("%s: exit %d, want %d; stdout %q, want %q; stderr %q", c.name, r.exit, c.exit, r.stdout, c.stdout, r.stderr)
		}
		if (r.stderr != "") != (c.exit != exitOK && c.stdout == "") || strings.Contains(r.stderr, "%!") {
			t.Errorf("%s: stderr %q", c.name, r.stderr)
		}
	}
}

// TestChecksHavePluginExitCodes: every check exits with 0 to 3 and prints a line with the reason.
func TestChecksHavePluginExitCodes(t *testing.T) {
	silent := api.NodeList{Nodes: []api.Node{{ID: "n1", HTTPAddress: strings.TrimPrefix(closedURL, "http://")}}}
	one := api.Lag{Channels: []api.ChannelLag{{Topic: "orders", Channel: "invoice", Depth: 7}}}
	for _, c := range []struct {
		args []string
		set  map[string]any // answers
		exit int
		want string // the beginning of stdout
	}{
		{[]string{"cluster"}, map[string]any{"GET /v1/cluster/health": api.Health{Healthy: true}}, 0, "BROKERD CLUSTER OK - "},
		{[]string{"cluster"}, map[string]any{"GET /v1/cluster/health": api.Health{Degraded: true}}, 1, "BROKERD CLUSTER WARNING - "},
		{[]string{"cluster"}, map[string]any{"GET /v1/cluster/health": api.Health{}}, 2, "BROKERD CLUSTER CRITICAL - "},
		{[]string{"cluster", "-q"}, map[string]any{"GET /v1/cluster/health": api.Health{}}, 2, ""},
		{nil, nil, 3, ""},
		{[]string{"bogus"}, nil, 3, ""},
		{[]string{"cluster", "-o", "json"}, map[string]any{"GET /v1/cluster/health": api.Health{}}, 2, `{"check":"cluster","state":"critical"`},
		{[]string{"cluster", "--format", "json"}, map[string]any{"GET /v1/cluster/health": api.Health{}}, 2, `{"check":"cluster","state":"critical"`},
		{[]string{"cluster", "--format", "prometheus"}, map[string]any{"GET /v1/cluster/health": api.Health{}}, 2, "# HELP brokerd_check_state"},
		{[]string{"cluster", "-o", "name"}, map[string]any{"GET /v1/cluster/health": api.Health{}}, 2, "critical\n"},
		{[]string{"cluster", "--addr", closedURL}, nil, 2, "BROKERD CLUSTER CRITICAL - no answer from"},
		{[]string{"cluster"}, map[string]any{"GET /v1/cluster/health": api.Error{Code: failure.Forbidden, Message: "no"}}, 3, "BROKERD CLUSTER UNKNOWN - no"},
		{[]string{"raft"}, nil, 1, "BROKERD RAFT WARNING - voter n3 does not answer"},
		{[]string{"channel", "orders/invoice"}, map[string]any{"GET /v1/lag": one}, 0, "BROKERD CHANNEL OK - orders/invoice: 7 messages wait"},
		{[]string{"channel", "orders/invoice", "--max-lag", "1"}, map[string]any{"GET /v1/lag": one}, 2, "BROKERD CHANNEL CRITICAL - orders/invoice: "},
		{[]string{"channel", "orders/none"}, nil, 2, "BROKERD CHANNEL CRITICAL - "},
		{[]string{"channel", "orders"}, nil, 3, ""},
		{[]string{"channel", "orders/invoice", "--max-lag", "x"}, nil, 3, ""},
		{[]string{"channel", "orders/invoice", "--max-lag", "5", "--warn-lag", "6"}, nil, 3, ""},
		{[]string{"channel", "orders/invoice", "--max-age", "1m", "--warn-age", "2m"}, nil, 3, ""},
		{[]string{"channel", "orders/invoice", "--min-consumers", "-1"}, nil, 3, ""},
		{[]string{"channel", "orders/invoice", "--max-lag", "-1"}, nil, 3, ""},
		{[]string{"disk", "--crit-free", "2GiB", "--warn-free", "1GiB"}, nil, 3, ""},
		{[]string{"cert", "--crit", "40d"}, nil, 3, ""},
		{[]string{"cert", "--warn", "-1h"}, nil, 3, ""},
		{[]string{"disk", "--no-such-flag"}, nil, 3, ""},
		{[]string{"disk", "word"}, nil, 3, ""},
		{[]string{"cluster", "--format", "xml"}, nil, 3, ""},
		{[]string{"disk"}, map[string]any{"GET /v1/nodes": silent}, 3, "BROKERD DISK UNKNOWN - "},
		{[]string{"cert"}, map[string]any{"GET /v1/nodes": silent}, 3, "BROKERD CERT UNKNOWN - "},
	} {
		b := newFakeBroker(t)
		for request, answer := range c.set {
			b.set(request, answer)
		}
		r := b.brokerctl(t, append([]string{"check"}, c.args...)...)
		if r.exit != c.exit || !strings.HasPrefix(r.stdout, c.want) || c.want == "" && r.stdout != "" {
			t.Errorf("%v: exit %d, want %d; stdout %q, stderr %q", c.args, r.exit, c.exit, r.stdout, r.stderr)
		}
	}
}

// A silent node is reported as such, and a caller without the right does not get an archive full of
// refusals.
func TestSilentNodeIsReported(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.Close)
	host := strings.TrimPrefix(silent.URL, "http://")
	for _, x := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"check", "node"}, 2, "no answer from " + host + ": timed out after "},
		{[]string{"check", "cluster"}, 2, "BROKERD CLUSTER CRITICAL - no answer from " + host + ": timed out after "},
		{[]string{"topic", "list"}, failure.ExitUnavailable, "(it may hang, be overloaded or not be reachable;"},
	} {
		r := runWith(t, environment{}, append(x.args, "--addr", silent.URL, "--timeout", "50ms")...)
		if out := r.stdout + r.stderr; r.exit != x.exit || !strings.Contains(out, x.want) || strings.Contains(out, "deadline") {
			t.Errorf("%q: exit %d, %q, want %d, %q", x.args, r.exit, out, x.exit, x.want)
		}
	}
	b := newFakeBroker(t)
	b.set("GET /v1/nodes", api.Error{Code: failure.Forbidden, Message: "not permitted", Fate: "refused"})
	file := filepath.Join(t.TempDir(), "b.tgz")
	if r := b.brokerctl(t, "debug", "bundle", file); r.exit != failure.ExitForbidden || !strings.Contains(r.stderr, "not permitted") {
		t.Errorf("exit %d, %q", r.exit, r.stderr)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("an archive was written: %v", err)
	}
}

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/accessctl"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// accessCommands are those about users, tokens and rules; see goldenCommands.
var accessCommands = [][]string{
	{"user", "create", "billing", "--grant", "publish invoices*", "--grant", "subscribe orders/billing", "--certificate", "billing.example"},
	{"user", "list"},
	{"user", "delete", "billing", "--yes"},
	{"token", "create", "billing", "--expires", "1h", "--description", "production"},
	{"token", "list", "billing"},
	{"token", "revoke", "0123456789abcdef"},
	{"acl", "grant", "billing", "publish", "invoices*"},
	{"acl", "revoke", "billing", "subscribe", "orders/billing"},
	{"acl", "list"},
	{"access", "enable"},
	{"access", "disable"},
	{"access", "status"},
	{"access", "whoami"},
	{"node", "join-token", "create", "n4", "--expires", "1h"},
	{"node", "join-token", "list"},
	{"node", "join-token", "require"},
	{"node", "join-token", "revoke", "0123456789abcdef"},
}

// testToken has the form of a token.
const testToken = "brk_0123456789abcdef_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// accessAnswers is what the fake answers to them.
func accessAnswers() map[string]any {
	billing := api.User{
		Name: "billing", Certificates: []string{"billing.example"}, Tokens: 1,
		Rules: []api.Rule{{Right: "publish", Topic: "invoices*"}, {Right: "subscribe", Topic: "orders", Channel: "billing"}},
	}
	ops := api.User{Name: "ops", HasPassword: true, Certificates: []string{}, Rules: []api.Rule{{Right: "admin"}}}
	token := api.Token{ID: "0123456789abcdef", User: "billing", Description: "production", Created: clock(), Expires: new(clock().Add(time.Hour))}
	joins := api.JoinTokens{Required: true, Tokens: []api.JoinToken{
		{ID: "0123456789abcdef", Node: "n4", State: "valid", Created: clock(), Expires: clock().Add(time.Hour)},
		{ID: "fedcba9876543210", Node: "n5", State: "used", Created: clock(), Expires: clock().Add(time.Hour), Used: new(clock().Add(time.Minute))},
	}}
	join := joins.Tokens[0]
	join.Secret = "brj_" + strings.TrimPrefix(testToken, "brk_")
	secret := token
	secret.Secret = testToken
	return map[string]any{
		"GET /v1/access":                                 api.AccessStatus{Users: 1},
		"POST /v1/access/enable":                         api.AccessStatus{Enabled: true, Administrator: true, Users: 2, Tokens: 1, ClusterSecretFile: "/data/cluster-secret"},
		"POST /v1/access/disable":                        api.AccessStatus{Administrator: true, Users: 2, Tokens: 1},
		"GET /v1/access/self":                            api.Self{User: "ops", Enabled: true, Rules: ops.Rules},
		"GET /v1/access/users":                           api.UserList{Users: []api.User{billing, ops}},
		"POST /v1/access/users":                          billing,
		"DELETE /v1/access/users/billing":                nil,
		"POST /v1/access/users/billing/password":         billing,
		"POST /v1/access/users/billing/grant":            billing,
		"POST /v1/access/users/billing/revoke":           billing,
		"POST /v1/access/users/billing/tokens":           secret,
		"GET /v1/access/tokens":                          api.TokenList{Tokens: []api.Token{token, {ID: "fedcba9876543210", User: "billing", Created: clock(), Expired: true}}},
		"DELETE /v1/access/tokens/0123456789abcdef":      nil,
		"GET /v1/access/tokens?user=billing":             nil,
		"GET /v1/access/join-tokens":                     joins,
		"POST /v1/access/join-tokens":                    join,
		"POST /v1/access/join-tokens/require":            joins,
		"DELETE /v1/access/join-tokens/0123456789abcdef": nil,
	}
}

// A rule is one argument, as after --grant, or two.
func TestRuleMayBeQuoted(t *testing.T) {
	b := newFakeBroker(t)
	var bodies []string
	b.set("POST /v1/access/users/billing/grant", func(_ *http.Request, body []byte) any {
		bodies = append(bodies, string(body))
		return api.User{Name: "billing"}
	})
	for _, rule := range [][]string{{"subscribe", "orders/billing"}, {"subscribe orders/billing"}} {
		if r := runWith(t, environment{}, append([]string{"acl", "grant", "billing", "--addr", b.URL}, rule...)...); r.exit != exitOK {
			t.Fatalf("%q: %s", rule, r.stderr)
		}
	}
	if bodies[0] != bodies[1] || !strings.Contains(bodies[0], `"channel":"billing"`) {
		t.Errorf("granted %q", bodies)
	}
}

// seen records the credentials of requests.
func seen(b *fakeBroker, request string, answer any) *string {
	got := new(string)
	b.set(request, func(r *http.Request, _ []byte) any {
		*got = r.Header.Get("Authorization")
		return answer
	})
	return got
}

func TestCredentialSources(t *testing.T) {
	b := newFakeBroker(t)
	got := seen(b, "GET /v1/access/self", api.Self{User: "ops", Rules: []api.Rule{}})
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	if err := os.WriteFile(file, []byte("from-file\nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "config", "contexts.yaml")
	with := func(more map[string]string, stdin string, args ...string) result {
		t.Helper()
		*got = ""
		return runWith(t, environment{stdin: strings.NewReader(stdin), getenv: func(name string) string {
			if name == "BROKERCTL_CONFIG" {
				return config
			}
			return more[name]
		}}, args...)
	}
	for _, name := range []string{"one", "two"} {
		if r := with(nil, testToken+"\n", "context", "set", name, "--addr", b.URL, "--token-file", "-"); r.exit != exitOK {
			t.Fatal(r.stderr)
		}
	}
	if about, err := os.Stat(config); err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", about.Mode(), err)
	}
	addr := []string{"access", "whoami", "--addr", b.URL}
	for _, tt := range []struct {
		name  string
		env   map[string]string
		stdin string
		args  []string
		want  string
	}{
		{"nothing", nil, "", addr, ""},
		{"file", map[string]string{accessctl.TokenVariable: "from-env"}, "", append(addr, "--token-file", file), "Bearer from-file"},
		{"standard input", nil, "typed\n", append(addr, "--token-file", "-"), "Bearer typed"},
		{"variable", map[string]string{accessctl.TokenVariable: "from-env", accessctl.UserVariable: "joe"}, "", addr, "Bearer from-env"},
		{"password", map[string]string{accessctl.UserVariable: "joe", accessctl.PasswordVariable: "p:w"}, "", addr, "Basic am9lOnA6dw=="},
		{"current context", nil, "", []string{"access", "whoami"}, "Bearer " + testToken},
		{"named context", nil, "", []string{"access", "whoami", "--context", "two"}, "Bearer " + testToken},
		{"variable with a context", map[string]string{accessctl.ContextVariable: "two"}, "", []string{"access", "whoami"}, "Bearer " + testToken},
	} {
		if r := with(tt.env, tt.stdin, tt.args...); r.exit != exitOK || *got != tt.want {
			t.Errorf("%s: exit %d %s, showed %q", tt.name, r.exit, r.stderr, *got)
		}
	}
	for _, args := range [][]string{
		{"access", "whoami", "--context", "none"},
		append(addr, "--token-file", filepath.Join(dir, "none")),
		append(addr, "--token-file", os.DevNull),
		{"context", "set", "three"},
		{"context", "set", "", "--addr", b.URL},
		{"context", "set", "a b", "--addr", b.URL},
		{"context", "set", "-x", "--addr", b.URL},
		{"context", "set", "../x", "--addr", b.URL},
		{"context", "set", strings.Repeat("x", 65), "--addr", b.URL},
	} {
		if r := with(nil, "", args...); r.exit != failure.ExitUsage {
			t.Errorf("%v: exit %d %s", args, r.exit, r.stderr)
		}
	}
	for _, args := range [][]string{{"context", "use", "none"}, {"context", "delete", "none"}} {
		if r := with(nil, "", args...); r.exit != failure.ExitNotFound || !strings.Contains(r.stderr, `no context "none"`) {
			t.Errorf("%v: exit %d %s", args, r.exit, r.stderr)
		}
	}
	if r := with(map[string]string{accessctl.TokenVariable: "a\r\nX: y"}, "", addr...); r.exit != failure.ExitUsage {
		t.Errorf("a token of two lines: exit %d", r.exit)
	}
	r := with(nil, "", "context", "list", "-o", "json")
	if r.exit != exitOK || strings.Contains(r.stdout, "AAAA") || !strings.Contains(r.stdout, "brk_0123456789abcdef_...") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	for _, args := range [][]string{{"context", "use", "two"}, {"context", "delete", "two"}} {
		if r := with(nil, "", args...); r.exit != exitOK {
			t.Errorf("%v: %s", args, r.stderr)
		}
	}
	if err := os.Chmod(config, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := with(nil, "", "access", "whoami"); r.exit != failure.ExitUsage || !strings.Contains(r.stderr, "chmod 600") {
		t.Errorf("a file that others can read: exit %d %s", r.exit, r.stderr)
	}
}

func TestTokenIsWrittenToANewFile(t *testing.T) {
	b := newFakeBroker(t)
	out := filepath.Join(t.TempDir(), "new.token")
	r := b.brokerctl(t, "token", "create", "billing", "--out", out)
	text, err := os.ReadFile(out)
	if r.exit != exitOK || strings.Contains(r.stdout, testToken) || err != nil || string(text) != testToken+"\n" {
		t.Errorf("%s%s%q %v", r.stdout, r.stderr, text, err)
	}
	if about, err := os.Stat(out); err != nil || about.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", about.Mode(), err)
	}
	before := len(b.changes())
	if r := b.brokerctl(t, "token", "create", "billing", "--out", out); r.exit != failure.ExitUsage || len(b.changes()) != before {
		t.Errorf("a file that exists: exit %d", r.exit)
	}
	if r := b.brokerctl(t, "token", "revoke", testToken); r.exit != exitOK || strings.Contains(strings.Join(b.changes(), ""), "AAAA") {
		t.Errorf("exit %d %s %v", r.exit, r.stderr, b.changes())
	}
}

func TestPasswordIsNotTakenFromTheCommandLine(t *testing.T) {
	b := newFakeBroker(t)
	typed := []string{"password 1", "password 1"}
	env := environment{isTerminal: true, getenv: addressOnly(b.URL), readSecret: func() (string, error) {
		text := typed[0]
		typed = typed[1:]
		return text, nil
	}}
	if r := runWith(t, env, "user", "passwd", "billing"); r.exit != exitOK || !strings.Contains(b.changes()[0], `"password":"password 1"`) {
		t.Errorf("exit %d %s %v", r.exit, r.stderr, b.changes())
	}
	typed = []string{"password 1", "password 2"}
	if r := runWith(t, env, "user", "passwd", "billing"); r.exit != failure.ExitUsage || len(b.changes()) != 1 {
		t.Errorf("passwords that differ: exit %d", r.exit)
	}
	if r := runWith(t, environment{getenv: addressOnly(b.URL), stdin: strings.NewReader("password 3\n")}, "user", "passwd", "billing"); r.exit != exitOK || !strings.Contains(b.changes()[1], "password 3") {
		t.Errorf("exit %d %s", r.exit, r.stderr)
	}
}

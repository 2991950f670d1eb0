package rolling

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

func detail() *api.NodeDetail {
	return &api.NodeDetail{Node: api.Node{ID: "n1", TCPAddress: "[fe80::1%eth0]:4150", HTTPAddress: "a.example:4151", Hostname: "a"}}
}

func TestScript(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"ssh {{.Host}} restart {{.Node}}", "ssh fe80::1%eth0 restart n1"},
		{"{{.Hostname}} {{.HTTPAddress}} {{.ClusterAddress}}", "a a.example:4151 "},
		{"{{.Nod}}", ""},
		{"{{.Node", ""},
	} {
		s, err := ParseScript(test.text)
		if test.want == "" {
			if err == nil {
				t.Errorf("%q is a script", test.text)
			} else if field := strings.Contains(test.text, "}}"); field != strings.Contains(err.Error(), "{{.Hostname}}") {
				t.Errorf("%q: %v: does not name the fields", test.text, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.For(detail()); got != test.want || err != nil {
			t.Errorf("%q: %q, %v", test.text, got, err)
		}
	}
}

// TestNodeValuesAreQuotedForShell: an advertised value is never executed.
func TestNodeValuesAreQuotedForShell(t *testing.T) {
	s, err := ParseScript("echo {{.Host}}")
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"a;reboot", "$(reboot)", "a b", "`x`", "a\nb", "a|b", "a&b", "a>b", "'"} {
		n := detail()
		n.TCPAddress = host + ":4150"
		if line, err := s.For(n); err == nil {
			t.Errorf("the shell would get %q", line)
		}
	}
}

func TestScriptRuns(t *testing.T) {
	run := func(text string) (string, error) {
		s, err := ParseScript(text)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err = s.Run(t.Context(), detail(), &out)
		return out.String(), err
	}
	if out, err := run("echo {{.Node}}; echo to stderr >&2"); out != "n1\nto stderr\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := run("exit 3"); err == nil || !strings.Contains(err.Error(), `command "exit 3": exit status 3`) {
		t.Error(err)
	}
	if out, err := run("sleep 60 & echo begun"); out != "begun\n" || err != nil {
		t.Errorf("a command that leaves something behind: %q, %v", out, err)
	}
	s, _ := ParseScript("sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Run(ctx, detail(), nil); err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Error(err)
	}
}

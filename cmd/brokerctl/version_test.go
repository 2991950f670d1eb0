package main

import "testing"

func TestVersionNamesItsSource(t *testing.T) {
	b := program{Version: "1.2.3", Go: "go1.26"}
	if got, want := b.String(), "brokerctl 1.2.3 (commit unknown, go1.26)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Tag, b.Commit, b.Date = "v1.2.3", "0123456789abcdef", "2026-01-02T03:04:05Z"
	if got, want := b.String(), "brokerctl 1.2.3 (tag v1.2.3, commit 0123456789ab, 2026-01-02T03:04:05Z, go1.26)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestVersionIsAFlagAndACommand(t *testing.T) {
	want := thisProgram().String() + "\n"
	for _, word := range []string{"version", "--version"} {
		if r := newFakeBroker(t).brokerctl(t, word); r.exit != exitOK || r.stdout != want || r.stderr != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q, want %q", word, r.exit, r.stdout, r.stderr, want)
		}
	}
}

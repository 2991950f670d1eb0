package main

import "testing"

func TestTheVersionNamesTheRevision(t *testing.T) {
	b := program{Version: "1.2.3", Go: "go1.26"}
	if got, want := b.String(), "brokerctl 1.2.3 (go1.26)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Revision = "0123456789abcdef"
	if got, want := b.String(), "brokerctl 1.2.3 (revision 0123456789ab, go1.26)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheVersionIsAFlagAndACommand(t *testing.T) {
	want := thisProgram().String() + "\n"
	for _, word := range []string{"version", "--version"} {
		if r := newFakeBroker(t).brokerctl(t, word); r.exit != exitOK || r.stdout != want || r.stderr != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q, want %q", word, r.exit, r.stdout, r.stderr, want)
		}
	}
}

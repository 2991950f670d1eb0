package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/pkg/failure"
)

func TestHTTPSAddressIsVerifiedByItsAuthority(t *testing.T) {
	b := newFakeBroker(t)
	s := httptest.NewTLSServer(http.HandlerFunc(b.serve))
	defer s.Close()
	authorities := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(authorities, block, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := runWith(t, environment{}, "--addr", s.URL, "node", "list", "-o", "name"); r.exit != failure.ExitUnavailable {
		t.Errorf("an authority that is not known: exit %d, %s", r.exit, r.stderr)
	}
	if r := runWith(t, environment{}, "--addr", s.URL, "--cacert", authorities, "node", "list", "-o", "name"); r.exit != exitOK || r.stdout != "n1\nn2\nn3\n" {
		t.Errorf("exit %d, %q, %s", r.exit, r.stdout, r.stderr)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		said string
	}{
		{[]string{"--cacert", empty}, "no certificate found"},
		{[]string{"--cacert", empty + ".not"}, "--cacert"},
		{[]string{"--cert", authorities}, "--cert and --key must be given together"},
		{[]string{"--cert", authorities, "--key", empty}, "--cert"},
	} {
		r := runWith(t, environment{}, append(c.args, "node", "list")...)
		if r.exit != failure.ExitUsage || !strings.Contains(r.stderr, c.said) {
			t.Errorf("%q: exit %d, %q", c.args, r.exit, r.stderr)
		}
	}
}

package main

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/certtest"
	"github.com/brokerd/brokerd/internal/config"
)

// TestOwnSecretIsCreatedOnce, in a file that only its owner reads, and is in use from then on.
func TestOwnSecretIsCreatedOnce(t *testing.T) {
	o := config.Options{DataDir: t.TempDir()}
	s, err := loadClusterSecret(&o)
	if err != nil {
		t.Fatal(err)
	}
	bound := []net.Listener{fakeListener("127.0.0.1")}
	if s.secrets() != nil || !s.open(&o.Cluster, bound) || s.open(&o.Cluster, nil) {
		t.Errorf("before: %q", s.secrets())
	}
	if err := s.refresh(); err != nil {
		t.Errorf("a reload without a secret: %v", err)
	}
	if err := os.WriteFile(filepath.Join(o.DataDir, ownSecretFile+".tmp"), []byte("left over"), 0o644); err != nil { //nolint:gosec // of another process
		t.Fatal(err)
	}
	path, err := s.create()
	if err != nil || path != filepath.Join(o.DataDir, ownSecretFile) {
		t.Fatalf("%s, %v", path, err)
	}
	about, err := os.Stat(path)
	if err != nil || about.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", about, err)
	}
	secret := string(s.secrets()[0])
	if len(secret) < 2*minSecret || s.open(&o.Cluster, bound) {
		t.Errorf("secret %q", secret)
	}
	if again, err := s.create(); err != nil || again != path || string(s.secrets()[0]) != secret {
		t.Errorf("created again: %s, %v", again, err)
	}
	next, err := loadClusterSecret(&o) // of the next process
	if err != nil || string(next.secrets()[0]) != secret {
		t.Errorf("the next process: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := next.refresh(); err == nil || string(next.secrets()[0]) != secret {
		t.Errorf("a reload after the file was removed opens the port: %v", err)
	}
	o.Cluster.SecretFile = filepath.Join(t.TempDir(), "configured")
	if _, err := loadClusterSecret(&o); err == nil {
		t.Error("a configured file that does not exist is accepted")
	}
	if err := os.WriteFile(o.Cluster.SecretFile, []byte(strings.Repeat("x", minSecret)), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := loadClusterSecret(&o); err != nil || s.own || len(s.secrets()) != 1 {
		t.Errorf("configured: %v", err)
	}
}

// fakeListener listens on a host.
type fakeListener string

func (fakeListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (fakeListener) Close() error              { return nil }
func (l fakeListener) Addr() net.Addr          { return &net.TCPAddr{IP: net.ParseIP(string(l))} }

// TestOpenPortBeyondLoopbackIsRefused unless an operator wants it.
func TestOpenPortBeyondLoopbackIsRefused(t *testing.T) {
	o := config.Options{DataDir: t.TempDir()}
	s, err := loadClusterSecret(&o)
	if err != nil {
		t.Fatal(err)
	}
	lan, loopback := []net.Listener{fakeListener("10.0.0.1")}, []net.Listener{fakeListener("127.0.0.1")}
	if s.guardCluster(&o.Cluster, lan) == nil || s.guardCluster(&o.Cluster, loopback) != nil {
		t.Error("an open port")
	}
	for _, c := range []config.Cluster{{Insecure: true}, {TLS: config.ClusterTLS{CAFile: "ca.pem"}}} {
		if err := s.guardCluster(&c, lan); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := s.create(); err != nil || s.guardCluster(&o.Cluster, lan) != nil {
		t.Errorf("with a secret: %v", err)
	}
}

func TestAuthorityOfNodesAndClients(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, all ...string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(strings.Join(all, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	authority := func() string {
		c := certtest.Make(t, x509.Certificate{}, nil)
		cert := filepath.Join(dir, "cert")
		certtest.Write(t, c, cert, filepath.Join(dir, "key"))
		text, err := os.ReadFile(cert)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	a, b := authority(), authority()
	one, other, both := write("one", a), write("other", b), write("both", b, "text\n", a)
	for _, test := range []struct {
		nodes, clients string
		want           bool
	}{
		{one, one, true},
		{one, both, true},
		{both, one, true},
		{one, other, false},
		{one, "", false},
		{"", "", false},
		{one, filepath.Join(dir, "none"), false},
		{write("empty"), one, false},
	} {
		if got := sharesAuthority(test.nodes, test.clients); got != test.want {
			t.Errorf("%s and %s: %v", test.nodes, test.clients, got)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/brokerd/brokerd/internal/certtest"
	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/internal/node"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/health"
)

func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("who knows"), exitBug},
		{fate.Mark(errors.New("crc"), fate.Corrupt), exitDisk},
		{fmt.Errorf("open: %w", &os.PathError{Op: "open", Path: "x", Err: os.ErrPermission}), exitDisk},
		{fmt.Errorf("metadata: bootstrap cluster: %w on node n1", failure.MetadataDiskFull), exitDisk},
		{done{exitWith(exitTemporary, errors.New("x"))}, exitTemporary},
		{config.Problems{{Flag: true}}, exitUsage},
		{config.Problems{{Flag: true}, {}}, exitConfig},
		{silent{exitFailed}, exitFailed},
		{fmt.Errorf("serve: %w", &node.DiskError{Err: errors.New("x")}), exitDisk},
		{&node.AddressError{Err: errors.New("x")}, exitConfig},
	} {
		if got := exitCode(tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestLogLinesForJournaldAndNsq(t *testing.T) {
	at := time.Date(2026, 11, 21, 1, 2, 3, 4000, time.UTC)
	for _, tt := range []struct {
		head func(slog.Record) string
		want string
	}{
		{journalHead, "<4>two words topic=t g.n=1 g.text=\"a b\" g.at=2026-11-21T01:02:03.000004Z g.inner.x=\"\"\n"},
		{nsqHead("[nsqd] "), "[nsqd] 2026/11/21 01:02:03.000004 WARNING: two words topic=t g.n=1 g.text=\"a b\" g.at=2026-11-21T01:02:03.000004Z g.inner.x=\"\"\n"},
	} {
		var out bytes.Buffer
		h := (&lineHandler{to: &out, level: slog.LevelInfo, head: tt.head}).
			WithAttrs([]slog.Attr{slog.String("topic", "t")}).WithGroup("g").WithAttrs([]slog.Attr{slog.Int("n", 1)})
		r := slog.NewRecord(at, slog.LevelWarn, "two\nwords", 0)
		r.AddAttrs(slog.String("text", "a b"), slog.Time("at", at), slog.Group("inner", slog.String("x", "")))
		if h.Enabled(t.Context(), slog.LevelDebug) {
			t.Error("debug lines are on")
		}
		if err := h.Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, out.String()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAutomaticFormat(t *testing.T) {
	out, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if got := autoFormat(out, ""); got != "json" {
		t.Errorf("a file gets %s", got)
	}
	if got := autoFormat(out, "1:2"); got != "json" {
		t.Errorf("somebody else's journal: %s", got)
	}
	newLogger(newLogOut(out), out, "auto", slog.LevelInfo, "").Info("hello", "took", 1500*time.Millisecond)
	content, err := os.ReadFile(out.Name())
	if err != nil || !strings.HasPrefix(string(content), `{"time":`) || !strings.Contains(string(content), `"took":"1.5s"`) {
		t.Errorf("%s %v", content, err)
	}
}

// certificate writes a new self-signed pair for a name.
func certificate(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	lasting := x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: time.Now().Add(90 * 24 * time.Hour)}
	certtest.Write(t, certtest.Make(t, lasting, nil), cert, key)
	return cert, key
}

// served returns the name that a handshake shows.
func served(t *testing.T, c *tls.Config) string {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		defer theirs.Close()
		_ = tls.Server(theirs, c).Handshake()
	}()
	client := tls.Client(ours, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the name is checked by the caller
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	return client.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func TestInvalidCertificateNeverReplacesValidOne(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir, "first")
	certs, err := loadCertificates(config.TLS{CertFile: cert, KeyFile: key, MinVersion: "tls1.2"})
	if err != nil {
		t.Fatal(err)
	}
	server := certs.config()
	var out bytes.Buffer
	log := slog.New(&lineHandler{to: &out, level: slog.LevelInfo, head: journalHead})
	steps := []struct {
		name   string
		change func()
		served string
		log    string
	}{
		{"nothing", func() {}, "first", ""},
		{"another pair", func() { certificate(t, dir, "second") }, "second", "<6>certificates reloaded"},
		{"a key that does not fit", func() {
			kept, _ := os.ReadFile(cert)
			certificate(t, dir, "third")
			_ = os.WriteFile(cert, kept, 0o600)
		}, "second", "<3>cannot reload certificates"},
		{"still broken", func() {}, "second", ""},
		{"no file", func() { _ = os.Remove(cert) }, "second", "<3>cannot reload certificates"},
		{"mended", func() { certificate(t, dir, "fourth") }, "fourth", "<6>certificates reloaded"},
	}
	said := ""
	for _, step := range steps {
		out.Reset()
		step.change()
		said = certs.refreshAndLog(log, said)
		if got := served(t, server); got != step.served {
			t.Errorf("%s: %s is served, want %s", step.name, got, step.served)
		}
		if (out.Len() == 0) != (step.log == "") || !strings.HasPrefix(out.String(), step.log) {
			t.Errorf("%s: %q was logged, want %q", step.name, out.String(), step.log)
		}
	}
}

// TestUnusableCertificateNeverReplacesUsableOne: it did, and other nodes or clients refused every connection.
func TestUnusableCertificateNeverReplacesUsableOne(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	ca, other := certtest.Make(t, x509.Certificate{Subject: pkix.Name{CommonName: "ca"}}, nil), certtest.Make(t, x509.Certificate{Subject: pkix.Name{CommonName: "ca"}}, nil)
	cert, key, roots := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	certtest.Write(t, ca, roots, key)
	write := func(c x509.Certificate, by *tls.Certificate) { certtest.Write(t, certtest.Make(t, c, by), cert, key) }
	named := func(name string) x509.Certificate { return x509.Certificate{Subject: pkix.Name{CommonName: name}} }
	write(named("n1"), &ca)
	between, err := loadClusterCertificates(config.ClusterTLS{CertFile: cert, KeyFile: key, CAFile: roots}, "n1")
	if err != nil {
		t.Fatal(err)
	}
	clients, err := loadCertificates(config.TLS{CertFile: cert, KeyFile: key, MinVersion: "tls1.2"})
	if err != nil {
		t.Fatal(err)
	}
	expired, early := named("n1"), named("n1")
	expired.NotBefore, expired.NotAfter = now.Add(-2*time.Hour), now.Add(-time.Hour)
	early.NotBefore, early.NotAfter = now.Add(time.Hour), now.Add(2*time.Hour)
	for _, x := range []struct {
		template         x509.Certificate
		by               *tls.Certificate
		nodes, clientsTo string // the error, or ""
	}{
		{expired, &ca, "certificate is valid from", "certificate is valid from"},
		{early, &ca, "certificate is valid from", "certificate is valid from"},
		{named("n2"), &ca, "does not name node n1", ""},
		{named("n1"), &other, "other nodes would refuse", ""},
		{named("n1"), &ca, "", ""},
	} {
		write(x.template, x.by)
		for c, want := range map[*certificates]string{between: x.nodes, clients: x.clientsTo} {
			was := c.current.Load()
			changed, err := c.refresh()
			if changed != (want == "") || (c.current.Load() != was) != changed || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: changed %t, error %v, want %q", c.flags.cert, changed, err, want)
			}
		}
	}
	write(expired, &ca)
	if late, err := loadClusterCertificates(config.ClusterTLS{CertFile: cert, KeyFile: key, CAFile: roots}, "n1"); err != nil {
		t.Error(err) // a node starts with what it has
	} else if write(early, &ca); true {
		if changed, err := late.refresh(); !changed || err != nil {
			t.Errorf("an unusable certificate is not replaced by another one: %v", err)
		}
	}
}

func TestCertificatesArePolledEveryHalfMinute(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir, "first")
	certs, err := loadCertificates(config.TLS{CertFile: cert, KeyFile: key, MinVersion: "tls1.2"})
	if err != nil {
		t.Fatal(err)
	}
	before := certs.current.Load()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go certs.watch(ctx, slog.New(slog.DiscardHandler))
		<-time.After(certificatePoll + time.Second)
		synctest.Wait()
		if certs.current.Load() != before {
			t.Error("unchanged files were loaded again")
		}
		certificate(t, dir, "second")
		<-time.After(certificatePoll)
		synctest.Wait()
		if certs.current.Load() == before {
			t.Error("changed files were not loaded")
		}
		cancel()
	})
}

func TestClientCertificatesFollowThePolicy(t *testing.T) {
	cert, key := certificate(t, t.TempDir(), "ca")
	for policy, want := range map[string]tls.ClientAuthType{"": tls.NoClientCert, "require": tls.RequireAnyClientCert, "require-verify": tls.RequireAndVerifyClientCert} {
		certs, err := loadCertificates(config.TLS{CertFile: cert, KeyFile: key, RootCAFile: cert, ClientAuthPolicy: policy, MinVersion: "tls1.3"})
		if err != nil {
			t.Fatal(err)
		}
		if got := certs.current.Load(); got.ClientAuth != want || got.ClientCAs == nil || got.MinVersion != tls.VersionTLS13 {
			t.Errorf("%q: %v", policy, got.ClientAuth)
		}
	}
	if _, err := loadCertificates(config.TLS{CertFile: cert, KeyFile: key, RootCAFile: key}); err == nil {
		t.Error("a key was taken for authorities")
	}
	if certs, err := loadCertificates(config.TLS{}); certs != nil || err != nil || certs.config() != nil {
		t.Error("TLS is not off")
	}
}

// A node that waits for its cluster, because the others refuse its certificate, got a new one only after a restart.
func TestCertificatesAreReloadedWhileTheNodeOpens(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir, "first")
	certs, err := loadCertificates(config.TLS{CertFile: cert, KeyFile: key, MinVersion: "tls1.2"})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		hangup := make(chan struct{}, 1)
		p := &process{secret: &clusterSecret{}, log: slog.New(slog.DiscardHandler), peerCerts: certs}
		p.open = func(ctx context.Context, _ node.Config) (brokerNode, error) {
			before := certs.current.Load()
			certificate(t, dir, "second")
			poke(hangup)
			synctest.Wait()
			if certs.current.Load() == before {
				t.Error("changed files were not loaded")
			}
			return nil, ctx.Err()
		}
		if _, err := p.recoverNode(t.Context(), &node.Listeners{}, hangup); err != nil {
			t.Error(err)
		}
		if len(hangup) != 1 {
			t.Error("the other settings are not reloaded once the node is open")
		}
	})
}

func TestExpiringCertificateIsLoggedOnceADay(t *testing.T) {
	const invalid, soon = "expired or not valid yet", "expires soon"
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	template := x509.Certificate{Subject: pkix.Name{CommonName: "node"}, NotAfter: time.Now().Add(90 * 24 * time.Hour)}
	certtest.Write(t, certtest.Make(t, template, nil), cert, key)
	certs, err := loadCertificates(config.TLS{CertFile: cert, KeyFile: key, MinVersion: "tls1.2"})
	if err != nil {
		t.Fatal(err)
	}
	leaf := certs.current.Load().Certificates[0].Leaf
	notice := leaf.NotAfter.Add(-health.CertificateNotice)
	for _, x := range []struct {
		at   time.Time
		want string
	}{
		{leaf.NotBefore.Add(-1), invalid},
		{leaf.NotBefore, ""},
		{notice, ""},
		{notice.Add(1), soon},
		{notice.Add(certificateReminder), ""},
		{notice.Add(1 + certificateReminder), soon},
		{leaf.NotAfter, soon},
		{leaf.NotAfter.Add(certificateReminder), invalid},
		{leaf.NotAfter.Add(certificateReminder + certificatePoll), ""},
	} {
		var out bytes.Buffer
		certs.warn(slog.New(slog.NewTextHandler(&out, nil)), x.at)
		if text := out.String(); (text == "") != (x.want == "") || !strings.Contains(text, x.want) || x.want != "" && !strings.Contains(text, cert) {
			t.Errorf("at %v the log says %q, want %q", x.at, text, x.want)
		}
	}
	certtest.Write(t, certtest.Make(t, x509.Certificate{Subject: pkix.Name{CommonName: "another"}}, nil), cert, key) // for an hour
	var out bytes.Buffer
	if certs.refreshAndLog(slog.New(slog.NewTextHandler(&out, nil)), ""); !strings.Contains(out.String(), soon) {
		t.Errorf("another certificate: %q", out.String())
	}
}

package peer

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brokerd/brokerd/internal/certtest"
)

// ca is a certificate authority of a test.
type ca struct {
	t    testing.TB
	cert tls.Certificate
	pool *x509.CertPool
}

func authority(t testing.TB) *ca {
	cert := certtest.Make(t, x509.Certificate{Subject: pkix.Name{CommonName: "authority"}}, nil)
	return &ca{t, cert, certtest.Pool(cert)}
}

// issue returns a certificate for names; the first is the common name, too.
func (a *ca) issue(notAfter time.Time, common string, names ...string) tls.Certificate {
	begin := notAfter.Add(-24 * time.Hour)
	return certtest.Make(a.t, x509.Certificate{Subject: pkix.Name{CommonName: common}, DNSNames: names, NotBefore: begin, NotAfter: notAfter}, &a.cert)
}

// usage returns a certificate for a name that is only for some usage.
func (a *ca) usage(name string, usage x509.ExtKeyUsage) tls.Certificate {
	return certtest.Make(a.t, x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, ExtKeyUsage: []x509.ExtKeyUsage{usage}}, &a.cert)
}

// config returns a function that returns a configuration for a name, which
// trusts the authority.
func (a *ca) config(name string) func() *tls.Config {
	return a.with(a.issue(time.Now().Add(time.Hour), name, name))
}

func (a *ca) with(c tls.Certificate) func() *tls.Config {
	return func() *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{c}, RootCAs: a.pool, ClientCAs: a.pool}
	}
}

// secured returns options of a node for TCP and TLS.
func secured(self Node, config func() *tls.Config) Options {
	o := tcpOptions(self)
	o.ServerTLS, o.ClientTLS = config, config
	return o
}

func TestTLSAdmitsOnlyNodes(t *testing.T) {
	ours, others := authority(t), authority(t)
	now := time.Now()
	for _, tt := range []struct {
		name           string
		dialer, server func() *tls.Config
		want           Reason // ReasonNone: see works
		works          bool
	}{
		{"both of the cluster", ours.config("a"), ours.config("b"), ReasonNone, true},
		{"names in the subject", ours.with(ours.issue(now.Add(time.Hour), "a")), ours.with(ours.issue(now.Add(time.Hour), "b")), ReasonNone, true},
		{"one of several names", ours.with(ours.issue(now.Add(time.Hour), "x", "y", "a")), ours.config("b"), ReasonNone, true},
		{"dialer of another authority", others.config("a"), ours.config("b"), ReasonNone, false},
		{"server of another authority", ours.with(ours.issue(now.Add(time.Hour), "a", "a")), others.config("b"), ReasonNone, false},
		{"dialer expired", ours.with(ours.issue(now.Add(-time.Hour), "a", "a")), ours.config("b"), ReasonNone, false},
		{"server expired", ours.config("a"), ours.with(ours.issue(now.Add(-time.Hour), "b", "b")), ReasonNone, false},
		{"dialer of another name", ours.config("c"), ours.config("b"), ReasonCertificate, false},
		{"server of another name", ours.config("a"), ours.config("c"), ReasonCertificate, false},
		{"subject beside names", ours.with(ours.issue(now.Add(time.Hour), "a", "x")), ours.config("b"), ReasonCertificate, false},
		{"dialer with a client's certificate", ours.with(ours.usage("a", x509.ExtKeyUsageClientAuth)), ours.config("b"), ReasonNone, false},
		{"server with a client's certificate", ours.config("a"), ours.with(ours.usage("b", x509.ExtKeyUsageClientAuth)), ReasonNone, false},
		{"dialer with a server's certificate", ours.with(ours.usage("a", x509.ExtKeyUsageServerAuth)), ours.config("b"), ReasonNone, false},
		{"dialer without TLS", nil, ours.config("b"), ReasonNone, false},
		{"server without TLS", ours.config("a"), nil, ReasonNone, false},
		{"no authority", func() *tls.Config { return new(tls.Config) }, ours.config("b"), ReasonNone, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, addr := node(t, secured("b", tt.server), "127.0.0.1:0")
			a, _ := node(t, secured("a", tt.dialer), "127.0.0.1:0")
			got, err := a.Peer("b", ClassForward, addr).Call(t.Context(), 1, [][]byte{[]byte("x"), make([]byte, 100<<10)})
			if tt.works {
				if err != nil || len(got) != 100<<10+1 {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				return
			}
			if err == nil {
				t.Fatal("they talk")
			}
			if tt.want != ReasonNone && refusal(t, err).Reason != tt.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCertificatesMayChange(t *testing.T) {
	old, renewed := authority(t), authority(t)
	var current atomic.Pointer[tls.Config]
	current.Store(old.config("b")())
	_, addr := node(t, secured("b", current.Load), "127.0.0.1:0")
	a, _ := node(t, secured("a", renewed.config("a")), "127.0.0.1:0")
	if _, err := a.Ping(t.Context(), addr); err == nil {
		t.Fatal("the old certificate is trusted")
	}
	current.Store(renewed.config("b")())
	if _, err := a.Ping(t.Context(), addr); err != nil {
		t.Errorf("the new one is not: %v", err)
	}
}

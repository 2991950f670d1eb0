package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/config"
	"github.com/brokerd/brokerd/pkg/health"
	"github.com/brokerd/brokerd/pkg/metrics"
	"github.com/brokerd/brokerd/pkg/peer"
)

// certificatePoll is the interval at which certificate files are checked, because tools that renew
// them rarely notify anyone.
const certificatePoll = 30 * time.Second

// certificateReminder is the interval at which the log has that a certificate is not valid, or not for long.
const certificateReminder = 24 * time.Hour

// certificates is the TLS material of the process. New connections use the last valid version of
// the files; an invalid file never replaces it.
type certificates struct {
	from    config.TLS
	flags   certificateFlags
	node    peer.Node // whose certificate it is; "": any names will do
	current atomic.Pointer[tls.Config]

	reloaded, failed atomic.Uint64 // since the start

	mu     sync.Mutex // guards what follows
	seen   [sha256.Size]byte
	warned time.Time // when the log last had that the certificate is invalid, or will be; zero: not of this one
}

// certificateFlags names the settings that contain the files.
type certificateFlags struct{ cert, key, roots string }

// loadCertificates reads the files named by o. It returns nil if TLS is off.
func loadCertificates(o config.TLS) (*certificates, error) {
	return loadFiles(o, certificateFlags{"tls-cert", "tls-key", "tls-root-ca-file"}, "")
}

// loadClusterCertificates reads the certificate of this node for cluster connections, and the
// authorities for those of other nodes. It returns nil if cluster TLS is off.
func loadClusterCertificates(o config.ClusterTLS, node peer.Node) (*certificates, error) {
	files := config.TLS{
		CertFile: o.CertFile, KeyFile: o.KeyFile, RootCAFile: o.CAFile, ClientAuthPolicy: "require-verify", MinVersion: "tls1.2",
	}
	return loadFiles(files, certificateFlags{"cluster-tls-cert", "cluster-tls-key", "cluster-tls-ca"}, node)
}

func loadFiles(o config.TLS, flags certificateFlags, node peer.Node) (*certificates, error) {
	if o.CertFile == "" {
		return nil, nil //nolint:nilnil // off is no error
	}
	c := &certificates{from: o, flags: flags, node: node}
	if _, err := c.refresh(); err != nil {
		return nil, exitWith(exitConfig, err)
	}
	return c, nil
}

// config returns a server's configuration that follows every refresh.
func (c *certificates) config() *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12, // the one below counts
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
}

// server returns the configuration for the next accepted connection.
func (c *certificates) server() *tls.Config { return c.current.Load() }

// client returns the configuration for the next outgoing connection: the same certificate, and the
// same authorities for the peer's.
func (c *certificates) client() *tls.Config {
	s := c.current.Load()
	return &tls.Config{Certificates: s.Certificates, RootCAs: s.ClientCAs, MinVersion: s.MinVersion}
}

// figures returns the expiry of the certificate in use; no metric if there is none.
func (c *certificates) figures(usage string) []metrics.Certificate {
	if c == nil {
		return nil
	}
	return []metrics.Certificate{{
		Usage: usage, NotAfter: c.current.Load().Certificates[0].Leaf.NotAfter,
		Reloaded: c.reloaded.Load(), Failed: c.failed.Load(),
	}}
}

// refresh reads the files and, if they have changed and match, uses them for new connections. It
// reports whether it did.
func (c *certificates) refresh() (bool, error) {
	cert, err := os.ReadFile(c.from.CertFile)
	if err != nil {
		return false, fmt.Errorf("%s: %w", c.flags.cert, err)
	}
	key, err := os.ReadFile(c.from.KeyFile)
	if err != nil {
		return false, fmt.Errorf("%s: %w", c.flags.key, err)
	}
	var roots []byte
	if c.from.RootCAFile != "" {
		if roots, err = os.ReadFile(c.from.RootCAFile); err != nil {
			return false, fmt.Errorf("%s: %w", c.flags.roots, err)
		}
	}
	sum := sha256.Sum256(bytes.Join([][]byte{cert, key, roots}, []byte{0}))
	if c.known(sum) {
		return false, nil
	}
	next, err := serverConfig(c.from, c.flags, cert, key, roots)
	if err != nil {
		return false, err
	}
	if was, now := c.current.Load(), time.Now(); was != nil && c.usable(was, now) == nil {
		if err := c.usable(next, now); err != nil {
			return false, fmt.Errorf("%s %s: %w", c.flags.cert, c.from.CertFile, err)
		}
	}
	c.current.Store(next)
	c.know(sum)
	return true, nil
}

// usable returns why others would refuse a certificate: it is expired or not valid yet or, between nodes, another
// node's or not issued by an authority of the cluster.
func (c *certificates) usable(s *tls.Config, now time.Time) error {
	leaf := s.Certificates[0].Leaf
	switch {
	case now.Before(leaf.NotBefore) || now.After(leaf.NotAfter):
		return fmt.Errorf("certificate is valid from %s to %s only", leaf.NotBefore.UTC().Format(time.RFC3339), leaf.NotAfter.UTC().Format(time.RFC3339))
	case c.node == "":
		return nil
	case !peer.Certifies(leaf, c.node):
		return fmt.Errorf("certificate does not name node %s", c.node)
	}
	o := x509.VerifyOptions{Roots: s.ClientCAs, Intermediates: x509.NewCertPool(), CurrentTime: now}
	for _, der := range s.Certificates[0].Certificate[1:] {
		if issuer, err := x509.ParseCertificate(der); err == nil {
			o.Intermediates.AddCert(issuer)
		}
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		o.KeyUsages = []x509.ExtKeyUsage{usage}
		if _, err := leaf.Verify(o); err != nil {
			return fmt.Errorf("other nodes would refuse the certificate, see %s: %w", c.flags.roots, err)
		}
	}
	return nil
}

func (c *certificates) known(sum [sha256.Size]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen == sum
}

func (c *certificates) know(sum [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen, c.warned = sum, time.Time{}
}

// serverConfig converts PEM files to a server configuration.
func serverConfig(o config.TLS, flags certificateFlags, cert, key, roots []byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s %s and %s %s: %w", flags.cert, o.CertFile, flags.key, o.KeyFile, err)
	}
	version := map[string]uint16{
		"tls1.0": tls.VersionTLS10, "tls1.1": tls.VersionTLS11, "tls1.2": tls.VersionTLS12, "tls1.3": tls.VersionTLS13,
	}[o.MinVersion]
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: version} //nolint:gosec // the operator's choice
	if len(roots) > 0 {
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(roots) {
			return nil, fmt.Errorf("%s %s: no certificate found", flags.roots, o.RootCAFile)
		}
	}
	switch o.ClientAuthPolicy {
	case "require":
		c.ClientAuth = tls.RequireAnyClientCert
	case "require-verify":
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// watch refreshes until ctx is done. It logs a failure once, until it changes.
func (c *certificates) watch(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(certificatePoll)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		said = c.refreshAndLog(log, said)
	}
}

// refreshAndLog refreshes, logs a result that differs from the previous one, and returns the
// result.
func (c *certificates) refreshAndLog(log *slog.Logger, said string) string {
	changed, err := c.refresh()
	switch {
	case err != nil && err.Error() != said:
		c.failed.Add(1)
		log.Error("cannot reload certificates; the old ones stay in use", "error", err)
	case changed:
		c.reloaded.Add(1)
		log.Info("certificates reloaded", "cert", c.from.CertFile)
	}
	c.warn(log, time.Now())
	if err != nil {
		return err.Error()
	}
	return ""
}

// warn logs, once a day, a certificate that is not valid at a time, because all others refuse it, with an error that this
// node may not see, and one that will not be valid soon.
func (c *certificates) warn(log *slog.Logger, now time.Time) {
	leaf := c.current.Load().Certificates[0].Leaf
	invalid := now.Before(leaf.NotBefore) || now.After(leaf.NotAfter)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !invalid && leaf.NotAfter.Sub(now) >= health.CertificateNotice || !c.warned.IsZero() && now.Sub(c.warned) < certificateReminder {
		return
	}
	c.warned = now
	if invalid {
		log.Error("certificate is expired or not valid yet: other nodes and clients refuse it; replace the file", "cert", c.from.CertFile,
			"not_before", leaf.NotBefore, "not_after", leaf.NotAfter)
		return
	}
	log.Warn("certificate expires soon: other nodes and clients will refuse it; replace the file, which is read again", "cert", c.from.CertFile,
		"not_after", leaf.NotAfter, "days_left", int(leaf.NotAfter.Sub(now)/(24*time.Hour)))
}

// sharesAuthority reports whether two PEM files have a certificate authority in common: one with the same
// key, as a renewed certificate has. Files that cannot be read share none; they are refused elsewhere.
func sharesAuthority(a, b string) bool {
	keys := authorityKeys(a)
	return slices.ContainsFunc(authorityKeys(b), func(key string) bool { return slices.Contains(keys, key) })
}

// authorityKeys returns the public keys of the certificates in a file.
func authorityKeys(file string) (keys []string) {
	if file == "" {
		return nil
	}
	rest, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return keys
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			keys = append(keys, string(c.RawSubjectPublicKeyInfo))
		}
	}
}

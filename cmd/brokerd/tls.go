package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/internal/config"
)

// certificatePoll is how often certificate files are looked at: tools that
// renew them rarely tell anyone.
const certificatePoll = 30 * time.Second

// certificates is the TLS material of the process. New connections get what
// was last loaded well; a bad file never replaces a good one.
type certificates struct {
	from    config.TLS
	current atomic.Pointer[tls.Config]

	mu   sync.Mutex // guards seen
	seen [sha256.Size]byte
}

// loadCertificates reads the files that o names. It returns nil where TLS is off.
func loadCertificates(o config.TLS) (*certificates, error) {
	if o.CertFile == "" {
		return nil, nil //nolint:nilnil // off is no error
	}
	c := &certificates{from: o}
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

// notAfter is when the certificate that new connections get ends.
func (c *certificates) notAfter() time.Time {
	return c.current.Load().Certificates[0].Leaf.NotAfter
}

// refresh reads the files and, where they have changed and fit together, gives
// them to new connections. It tells whether it did.
func (c *certificates) refresh() (bool, error) {
	cert, err := os.ReadFile(c.from.CertFile)
	if err != nil {
		return false, fmt.Errorf("tls-cert: %w", err)
	}
	key, err := os.ReadFile(c.from.KeyFile)
	if err != nil {
		return false, fmt.Errorf("tls-key: %w", err)
	}
	var roots []byte
	if c.from.RootCAFile != "" {
		if roots, err = os.ReadFile(c.from.RootCAFile); err != nil {
			return false, fmt.Errorf("tls-root-ca-file: %w", err)
		}
	}
	sum := sha256.Sum256(bytes.Join([][]byte{cert, key, roots}, []byte{0}))
	if c.known(sum) {
		return false, nil
	}
	next, err := serverConfig(c.from, cert, key, roots)
	if err != nil {
		return false, err
	}
	c.current.Store(next)
	c.know(sum)
	return true, nil
}

func (c *certificates) known(sum [sha256.Size]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen == sum
}

func (c *certificates) know(sum [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = sum
}

// serverConfig turns PEM files into a server's configuration.
func serverConfig(o config.TLS, cert, key, roots []byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("tls-cert %s and tls-key %s: %w", o.CertFile, o.KeyFile, err)
	}
	version := map[string]uint16{
		"tls1.0": tls.VersionTLS10, "tls1.1": tls.VersionTLS11, "tls1.2": tls.VersionTLS12, "tls1.3": tls.VersionTLS13,
	}[o.MinVersion]
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: version} //nolint:gosec // the operator's choice
	if len(roots) > 0 {
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(roots) {
			return nil, fmt.Errorf("tls-root-ca-file %s: holds no certificate", o.RootCAFile)
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

// watch refreshes until ctx is done. It says a failure once, until it changes.
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
		said = c.refreshAndSay(log, said)
	}
}

// refreshAndSay refreshes, logs what is news beside what was said before, and
// returns what is said now.
func (c *certificates) refreshAndSay(log *slog.Logger, said string) string {
	changed, err := c.refresh()
	switch {
	case err != nil && err.Error() != said:
		log.Error("certificates not reloaded; the old ones stay in use", "error", err)
	case changed:
		log.Info("certificates reloaded", "cert", c.from.CertFile)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

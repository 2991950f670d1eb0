package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLSOptions name the files and rules of the server's TLS.
type TLSOptions struct {
	CertFile, KeyFile string
	// ClientAuth is "" for no client certificates, "require" for any, and
	// "require-verify" for one that chains to RootCAFile.
	ClientAuth string
	RootCAFile string
	// MinVersion is 1.0, 1.1, 1.2 or 1.3, perhaps after "tls"; "": 1.2.
	MinVersion string
}

// LoadTLS reads the files and returns a configuration for Options.TLS. It is
// called again to take up new certificates; handshakes under way keep theirs.
func LoadTLS(o TLSOptions) (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("TLS certificate: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}}
	switch o.MinVersion {
	case "", "1.2", "tls1.2":
		config.MinVersion = tls.VersionTLS12
	case "1.3", "tls1.3":
		config.MinVersion = tls.VersionTLS13
	case "1.1", "tls1.1":
		config.MinVersion = tls.VersionTLS11
	case "1.0", "tls1.0":
		config.MinVersion = tls.VersionTLS10
	default:
		return nil, fmt.Errorf("TLS version %q is not known", o.MinVersion)
	}
	switch o.ClientAuth {
	case "":
	case "require":
		config.ClientAuth = tls.RequireAnyClientCert
	case "require-verify":
		config.ClientAuth = tls.RequireAndVerifyClientCert
	default:
		return nil, fmt.Errorf("TLS client auth policy %q is not known", o.ClientAuth)
	}
	if o.RootCAFile != "" {
		pem, err := os.ReadFile(o.RootCAFile)
		if err != nil {
			return nil, fmt.Errorf("TLS root file: %w", err)
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("TLS root file %s: %w", o.RootCAFile, errors.New("holds no certificate"))
		}
	}
	return config, nil
}

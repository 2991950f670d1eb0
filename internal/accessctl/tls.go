package accessctl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// HTTPClient returns a client that trusts authorities and shows a certificate, all of them PEM
// files; nil where none is named: the default client does.
func (o *Options) HTTPClient() (*http.Client, error) {
	c, err := httpClient(o.CACert, o.Cert, o.Key)
	return c, usage(err)
}

func httpClient(authorities, certificate, key string) (*http.Client, error) {
	if authorities == "" && certificate == "" && key == "" {
		return nil, nil //nolint:nilnil // the default is no error
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if authorities != "" {
		pem, err := os.ReadFile(authorities)
		if err != nil {
			return nil, fmt.Errorf("--cacert: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--cacert: no certificate found in %s", authorities)
		}
	}
	if (certificate == "") != (key == "") {
		return nil, errors.New("--cert and --key must be given together")
	}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("--cert: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	t := http.DefaultTransport.(*http.Transport).Clone() // it is TLS, according to net/http
	t.DialContext = (&net.Dialer{Timeout: api.DialTimeout}).DialContext
	t.TLSClientConfig = c
	return &http.Client{Transport: t}, nil
}

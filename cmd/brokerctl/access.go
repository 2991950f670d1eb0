package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"

	"github.com/spf13/pflag"

	"github.com/brokerd/brokerd/pkg/admin/api"
)

// secretVariable holds what AUTH sends, for those who would not have it in a
// list of processes.
const secretVariable = "BROKERCTL_SECRET"

// accessOptions are what it takes to be let in.
type accessOptions struct {
	authorities string // PEM file
	certificate string // PEM file
	key         string // PEM file
}

func (o *accessOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.authorities, "cacert", "", "CA certificate `FILE` for https addresses (default: the system's)")
	f.StringVar(&o.certificate, "cert", "", "client certificate `FILE` for https addresses")
	f.StringVar(&o.key, "key", "", "private key `FILE` of the client certificate")
}

// httpClient returns a client that uses the options, nil where there are none:
// the default one does.
func (o *accessOptions) httpClient() (*http.Client, error) {
	if *o == (accessOptions{}) {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.authorities != "" {
		pem, err := os.ReadFile(o.authorities)
		if err != nil {
			return nil, usageError("--cacert: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usageError("--cacert: no certificate found in %s", o.authorities)
		}
	}
	if (o.certificate == "") != (o.key == "") {
		return nil, usageError("--cert and --key must be given together")
	}
	if o.certificate != "" {
		pair, err := tls.LoadX509KeyPair(o.certificate, o.key)
		if err != nil {
			return nil, usageError("--cert: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	t := http.DefaultTransport.(*http.Transport).Clone() // it is one, as net/http says
	t.DialContext = (&net.Dialer{Timeout: api.DialTimeout}).DialContext
	t.TLSClientConfig = c
	return &http.Client{Transport: t}, nil
}

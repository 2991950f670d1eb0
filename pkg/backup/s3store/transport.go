package s3store

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Limits of requests. With maxTries a request that fails at once is repeated for some seconds.
const (
	maxTries     = 10
	dialTimeout  = 5 * time.Second
	stallTimeout = time.Minute
)

// transport returns a transport whose connections fail if nothing moves on them for a time.
func transport(stall time.Duration, secure *tls.Config) http.RoundTripper {
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &watched{c, stall}, nil
		},
		TLSClientConfig: secure, TLSHandshakeTimeout: stall, ResponseHeaderTimeout: stall, ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: stall, DisableCompression: true,
	}
}

// watched is a connection on which each read and write extends the time that all of them have.
type watched struct {
	net.Conn
	stall time.Duration
}

// Read reads, and fails if neither direction moves for a time.
func (w *watched) Read(p []byte) (int, error) {
	if err := w.SetDeadline(time.Now().Add(w.stall)); err != nil {
		return 0, err
	}
	return w.Conn.Read(p)
}

// Write writes, likewise.
func (w *watched) Write(p []byte) (int, error) {
	if err := w.SetDeadline(time.Now().Add(w.stall)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
)

// clientTLS does the dialer's handshake. The certificate's chain must lead to config.RootCAs. The
// node's hello decides the name to check, not the address.
func clientTLS(ctx context.Context, raw net.Conn, config *tls.Config) (*tls.Conn, *x509.Certificate, error) {
	if config.RootCAs == nil {
		return nil, nil, errNoRoots
	}
	c := config.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	c.InsecureSkipVerify = true // the next line verifies all but the host name
	c.VerifyConnection = func(s tls.ConnectionState) error { return verifyChain(s, config.RootCAs) }
	return shakeHands(ctx, tls.Client(raw, c))
}

// serverTLS does the accepting side's handshake. It demands a certificate whose chain leads to
// config.ClientCAs, and which is for servers as well: every node is one, and a client with a
// certificate of the same authority is not.
func serverTLS(ctx context.Context, raw net.Conn, config *tls.Config) (*tls.Conn, *x509.Certificate, error) {
	if config.ClientCAs == nil {
		return nil, nil, errNoRoots
	}
	c := config.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS12)
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.VerifyConnection = func(s tls.ConnectionState) error { return verifyChain(s, config.ClientCAs) }
	return shakeHands(ctx, tls.Server(raw, c))
}

func shakeHands(ctx context.Context, conn *tls.Conn) (*tls.Conn, *x509.Certificate, error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, nil, err
	}
	return conn, conn.ConnectionState().PeerCertificates[0], nil
}

// verifyChain verifies that the other side has a certificate for servers, of an authority among roots.
func verifyChain(s tls.ConnectionState, roots *x509.CertPool) error {
	options := x509.VerifyOptions{
		Roots:         roots,
		Intermediates: x509.NewCertPool(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, c := range s.PeerCertificates[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(options)
	return err
}

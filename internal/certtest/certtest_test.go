package certtest

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"path/filepath"
	"testing"
	"time"
)

func TestCertificatesAreSignedByTheirAuthority(t *testing.T) {
	ca, other := Make(t, x509.Certificate{}, nil), Make(t, x509.Certificate{}, nil)
	c := Make(t, x509.Certificate{Subject: pkix.Name{CommonName: "n1"}, DNSNames: []string{"n1"}}, &ca)
	verify := func(c tls.Certificate, by tls.Certificate, name string) error {
		_, err := c.Leaf.Verify(x509.VerifyOptions{Roots: Pool(by), DNSName: name})
		return err
	}
	expired := Make(t, x509.Certificate{DNSNames: []string{"n1"}, NotAfter: time.Now().Add(-time.Minute)}, &ca)
	if err := verify(c, ca, "n1"); err != nil {
		t.Error(err)
	}
	if verify(c, other, "n1") == nil || verify(c, ca, "n2") == nil || verify(expired, ca, "n1") == nil || verify(ca, ca, "") != nil {
		t.Error("a certificate says something else than its template")
	}
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	Write(t, c, cert, key)
	if back, err := tls.LoadX509KeyPair(cert, key); err != nil || !back.Leaf.Equal(c.Leaf) {
		t.Errorf("read %v, %v", back.Leaf, err)
	}
}

package nodes

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
)

func TestIssuedCertificateMatchesItsKeyAndAuthority(t *testing.T) {
	a, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	at := Identity(t.TempDir())
	if err := a.Issue(at, "127.0.0.1", a); err != nil {
		t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(at.File("cert.pem"), at.File("key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if text, err := os.ReadFile(at.File("ca.pem")); err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatalf("%q, %v", text, err)
	}
	if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "127.0.0.1"}); err != nil {
		t.Error(err)
	}
}

package blackbox

import (
	"bytes"
	"compress/flate"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang/snappy"

	"github.com/brokerd/brokerd/internal/certtest"
)

// authority issues certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert tls.Certificate
	life time.Duration // of certificates issued from now on
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir(), life: time.Hour}
	a.cert = a.issue("ca", nil)
	return a
}

// issue creates a certificate, signed by the authority or self-signed, and stores it and its key as
// name.pem and name.key.
func (a *authority) issue(name string, by *authority) tls.Certificate {
	a.t.Helper()
	template := x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(a.life), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	var signer *tls.Certificate
	if by != nil {
		signer = &by.cert
	}
	c := certtest.Make(a.t, template, signer)
	certtest.Write(a.t, c, a.path(name+".pem"), a.path(name+".key"))
	return c
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// client returns a client's TLS settings, with the named certificate, if any.
func (a *authority) client(name string) *tls.Config {
	a.t.Helper()
	c := &tls.Config{RootCAs: certtest.Pool(a.cert), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
	if name != "" {
		pair, err := tls.LoadX509KeyPair(a.path(name+".pem"), a.path(name+".key"))
		if err != nil {
			a.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// negotiate sends IDENTIFY with feature negotiation and returns the answer.
func (w *wire) negotiate(settings string) map[string]any {
	w.t.Helper()
	w.send("IDENTIFY\n" + sized(settings))
	var answer map[string]any
	if got := w.response(); json.Unmarshal([]byte(got), &answer) != nil {
		w.t.Fatalf("answered %q", got)
	}
	return answer
}

// encrypt upgrades the connection. An error is that of the handshake, or of the connection after
// it.
func (w *wire) encrypt(c *tls.Config) error {
	conn := tls.Client(w.Conn, c)
	if err := conn.Handshake(); err != nil {
		return err
	}
	w.Conn = conn
	kind, data, err := w.frame(patience)
	if err == nil && (kind != frameResponse || data != "OK") {
		err = fmt.Errorf("frame %d %q", kind, data)
	}
	return err
}

// packed is a connection with compression.
type packed struct {
	net.Conn
	r     io.Reader
	w     io.Writer
	flush func() error
}

func (p *packed) Read(b []byte) (int, error) { return p.r.Read(b) }

func (p *packed) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if err == nil && p.flush != nil {
		err = p.flush()
	}
	return n, err
}

func (w *wire) compress(how string) {
	w.t.Helper()
	p := &packed{Conn: w.Conn}
	if how == "snappy" {
		s := snappy.NewBufferedWriter(w.Conn)
		p.r, p.w, p.flush = snappy.NewReader(w.Conn), s, s.Flush
	} else {
		f, err := flate.NewWriter(w.Conn, 6)
		if err != nil {
			w.t.Fatal(err)
		}
		p.r, p.w, p.flush = flate.NewReader(w.Conn), f, f.Flush
	}
	w.Conn = p
	w.ok()
}

func TestUpgrades(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.issue("server", a)
	n := startNode(t, "--tls-cert", a.path("server.pem"), "--tls-key", a.path("server.key"), "--https-address", "127.0.0.1:0")
	for _, how := range []string{"", "snappy", "deflate"} {
		for _, encrypted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/tls=%v", how, encrypted), func(t *testing.T) {
				w := n.dial()
				w.t = t
				asked := fmt.Sprintf(`{"feature_negotiation":true,"tls_v1":%v,"%s":true}`, encrypted, how)
				answer := w.negotiate(asked)
				if answer["tls_v1"] != encrypted || (how != "" && answer[how] != true) {
					t.Fatalf("%s: %v", asked, answer)
				}
				if encrypted {
					if err := w.encrypt(a.client("")); err != nil {
						t.Fatal(err)
					}
				}
				if how != "" {
					w.compress(how)
				}
				topic := fmt.Sprintf("up-%s-%v", how, encrypted)
				w.send("SUB " + topic + " c\nRDY 5\n")
				w.ok()
				for i := range 50 {
					body := strings.Repeat(fmt.Sprint(i), 5000)
					w.send(pub(topic, body))
					var kinds []uint32
					var m message
					for range 2 { // an answer and a message, in either order
						kind, data, err := w.next(patience)
						if err != nil {
							t.Fatal(err)
						}
						if kind == frameMessage {
							m = message{id: data[10:26], body: data[26:]}
						}
						kinds = append(kinds, kind)
					}
					if m.body != body {
						t.Fatalf("message %d: %d bytes, frames %v", i, len(m.body), kinds)
					}
					w.fin(m)
				}
			})
		}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: a.client("")}, Timeout: patience}
	res, err := client.Get("https://" + n.address("HTTPS") + "/ping")
	if err != nil || res.StatusCode != 200 {
		t.Errorf("https: %v %v", res, err)
	}
}

func TestRequiredTLS(t *testing.T) {
	t.Parallel()
	a, other := newAuthority(t), newAuthority(t)
	a.issue("server", a)
	a.issue("friend", a)
	other.issue("stranger", other)
	for _, name := range []string{"stranger.pem", "stranger.key"} {
		b, err := os.ReadFile(other.path(name))
		if err == nil {
			err = os.WriteFile(a.path(name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	own := []string{"--tls-cert", a.path("server.pem"), "--tls-key", a.path("server.key"), "--https-address", "127.0.0.1:0"}
	for _, tt := range []struct {
		name    string
		args    []string
		client  string
		welcome bool
	}{
		{"required", []string{"--tls-required", "true"}, "", true},
		{"a certificate: none", []string{"--tls-client-auth-policy", "require"}, "", false},
		{"a certificate: any", []string{"--tls-client-auth-policy", "require"}, "stranger", true},
		{"a good certificate: any", []string{"--tls-client-auth-policy", "require-verify", "--tls-root-ca-file", a.path("ca.pem")}, "stranger", false},
		{"a good certificate: good", []string{"--tls-client-auth-policy", "require-verify", "--tls-root-ca-file", a.path("ca.pem")}, "friend", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := startNode(t, append(tt.args, own...)...)
			w := n.dial()
			w.send(pub("t", "x"))
			w.fails("E_INVALID cannot PUB in current state (TLS required)")
			w.closed()
			w = n.dial()
			w.negotiate(`{"feature_negotiation":true,"tls_v1":true}`)
			err := w.encrypt(a.client(tt.client))
			if tt.welcome != (err == nil) {
				t.Fatalf("handshake: %v", err)
			}
			if err == nil {
				w.alive("t")
			}
			if got := n.want(403, "GET", "/stats", ""); !strings.Contains(got, "TLS_REQUIRED") {
				t.Errorf("plain HTTP: %s", got)
			}
			for _, probe := range []string{"/livez", "/healthz", "/readyz"} {
				n.want(200, "GET", probe, "")
			}
		})
	}
}

// An unfinished or invalid handshake ends, and affects no other client.
func TestInvalidTLSHandshake(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	a.issue("server", a)
	n := startNode(t, "--tls-cert", a.path("server.pem"), "--tls-key", a.path("server.key"))
	w := n.dial()
	w.negotiate(`{"feature_negotiation":true,"tls_v1":true}`)
	w.send(pub("t", "this is not a handshake"))
	got, err := io.ReadAll(w)
	if err == nil && bytes.Contains(got, []byte("OK")) {
		t.Errorf("%q", got)
	}
	n.alive()
	w = n.dial()
	w.negotiate(`{"feature_negotiation":true,"snappy":true}`)
	w.send(pub("t", "this is not snappy"))
	if _, err := io.Copy(io.Discard, w); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	n.alive()
}

func TestAuthorization(t *testing.T) {
	t.Parallel()
	var queries atomic.Int32
	var answer atomic.Pointer[string]
	says := func(s string) { answer.Store(&s) }
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		queries.Add(1)
		if r.URL.Path != "/auth" || r.URL.Query().Get("remote_ip") != "127.0.0.1" || r.URL.Query().Get("tls") != "false" {
			t.Errorf("asked for %s", r.URL)
		}
		if r.URL.Query().Get("secret") != "good" {
			http.Error(rw, "no", http.StatusForbidden)
			return
		}
		fmt.Fprint(rw, *answer.Load())
	}))
	t.Cleanup(server.Close)
	n := startNode(t, "--auth-http-address", strings.TrimPrefix(server.URL, "http://"))
	auth := func(secret string) *wire {
		w := n.dial()
		if got := w.negotiate(`{"feature_negotiation":true}`); got["auth_required"] != true {
			t.Errorf("%v", got)
		}
		w.send("AUTH\n" + sized(secret))
		return w
	}
	good := func() *wire {
		w := auth("good")
		if got := w.response(); !strings.Contains(got, `"identity":"joe"`) {
			t.Fatalf("%q", got)
		}
		return w
	}
	const all = `{"ttl":%d,"identity":"joe","identity_url":"u","authorizations":[
		{"topic":"^mine","channels":[".*"],"permissions":["publish","subscribe"]},
		{"topic":"^look","channels":["^c$"],"permissions":["publish","subscribe"]}]}`
	says(fmt.Sprintf(all, 3600))
	w := n.dial()
	w.send(pub("mine", "x"))
	w.fails("E_AUTH_FIRST AUTH required before PUB")
	w.closed()
	w = auth("bad")
	w.fails("E_AUTH_FAILED AUTH failed")
	w.closed()
	w = good()
	w.send(pub("mine", "x"))
	w.ok()
	w.send("AUTH\n" + sized("good"))
	w.fails("E_INVALID AUTH already set")
	w.closed()
	for _, tt := range []struct{ send, says string }{
		{pub("yours", "x"), `E_UNAUTHORIZED AUTH failed for PUB on "yours" ""`},
		{mpub("yours", "x"), `E_UNAUTHORIZED AUTH failed for MPUB on "yours" ""`},
		{"DPUB yours 5\n" + sized("x"), `E_UNAUTHORIZED AUTH failed for DPUB on "yours" ""`},
		{"SUB yours c\n", `E_UNAUTHORIZED AUTH failed for SUB on "yours" "c"`},
		{"SUB look d\n", `E_UNAUTHORIZED AUTH failed for SUB on "look" "d"`},
		{pub("look", "x"), `E_UNAUTHORIZED AUTH failed for PUB on "look" ""`},
	} {
		w := good()
		w.send(tt.send)
		if got := w.fails("E_UNAUTHORIZED"); got != tt.says {
			t.Errorf("%q: %q", tt.send, got)
		}
		w.closed()
	}
	w = good()
	w.send("SUB look c\n")
	w.ok()
	for bad, code := range map[string]string{
		`{"ttl":0,"authorizations":[{"topic":".*","channels":[".*"],"permissions":["publish"]}]}`:    "E_AUTH_FAILED",
		`{"ttl":9,"authorizations":[{"topic":"(","channels":[".*"],"permissions":["publish"]}]}`:     "E_AUTH_FAILED",
		`{"ttl":9,"authorizations":[{"topic":".*","channels":[".*"],"permissions":["everything"]}]}`: "E_AUTH_FAILED",
		`{"ttl":9,"authorizations":[]}`: "E_UNAUTHORIZED",
		`no JSON`:                       "E_AUTH_FAILED",
	} {
		says(bad)
		w := auth("good")
		w.fails(code)
		w.closed()
	}
	// the auth server is asked again after the TTL, and may then refuse
	says(fmt.Sprintf(all, 1))
	w = good()
	w.send(pub("mine", "x"))
	w.ok()
	asked := queries.Load()
	eventually(t, "asked again", func() bool {
		w.send(pub("mine", "x"))
		w.ok()
		return queries.Load() > asked
	})
	server.Close()
	w.silent(1100 * time.Millisecond)
	w.send(pub("mine", "x"))
	w.fails("E_AUTH_FAILED AUTH failed")
	w.closed()
}

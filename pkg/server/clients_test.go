package server

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	gonsq "github.com/nsqio/go-nsq"

	"github.com/brokerd/brokerd/internal/certtest"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// certificate returns a self-signed certificate for localhost.
func certificate(t *testing.T, name string) tls.Certificate {
	t.Helper()
	return certtest.Make(t, x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"}}, nil)
}

// serverTLS returns a server's configuration that trusts clients with the server's own certificate,
// if it requests one.
func serverTLS(own tls.Certificate, policy tls.ClientAuthType) func() *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, ClientAuth: policy, ClientCAs: x509.NewCertPool(),
	}
	config.ClientCAs.AddCert(own.Leaf)
	return func() *tls.Config { return config }
}

type quiet struct{}

func (quiet) Output(int, string) error { return nil }

// TestGoNSQ publishes and consumes with an unmodified client through every
// combination of upgrades.
func TestGoNSQ(t *testing.T) {
	h := newHarness(t, Options{TLS: serverTLS(certificate(t, "server"), tls.NoClientCert)})
	for _, withTLS := range []bool{false, true} {
		for _, compression := range []string{"", "snappy", "deflate"} {
			t.Run(fmt.Sprintf("tls=%v %s", withTLS, compression), func(t *testing.T) {
				config := gonsq.NewConfig()
				config.DialTimeout, config.WriteTimeout = testTimeout, testTimeout // the default is a second
				config.MaxInFlight = 50
				config.TlsV1, config.TlsConfig = withTLS, &tls.Config{InsecureSkipVerify: true} //nolint:gosec // its own certificate
				config.Snappy, config.Deflate = compression == "snappy", compression == "deflate"
				topic := fmt.Sprintf("go-%v-%s", withTLS, compression)
				exchange(t, h, config, topic)
				for _, c := range h.Clients() {
					if c.PubCounts[topic] == 0 {
						continue
					}
					if c.TLS != withTLS || c.Snappy != config.Snappy || c.Deflate != config.Deflate {
						t.Errorf("the client is shown as %+v", c)
					}
				}
			})
		}
	}
}

func exchange(t *testing.T, h *harness, config *gonsq.Config, topic string) {
	t.Helper()
	producer, err := gonsq.NewProducer(h.addr, config)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Stop()
	producer.SetLogger(quiet{}, gonsq.LogLevelError)
	const total = 500
	want := make(map[string]bool, total)
	var bodies [][]byte
	for i := range total {
		body := fmt.Sprintf("%d %s", i, strings.Repeat("x", i*7))
		want[body] = true
		bodies = append(bodies, []byte(body))
	}
	if err := producer.Publish(topic, bodies[0]); err != nil {
		t.Fatal(err)
	}
	if err := producer.MultiPublish(topic, bodies[1:]); err != nil {
		t.Fatal(err)
	}
	consumer, err := gonsq.NewConsumer(topic, "c", config)
	if err != nil {
		t.Fatal(err)
	}
	consumer.SetLogger(quiet{}, gonsq.LogLevelError)
	got := make(chan string, total)
	consumer.AddHandler(gonsq.HandlerFunc(func(m *gonsq.Message) error {
		got <- string(m.Body)
		return nil
	}))
	if err := consumer.ConnectToNSQD(h.addr); err != nil {
		t.Fatal(err)
	}
	timeout := time.After(testTimeout)
	for len(want) > 0 {
		select {
		case body := <-got:
			delete(want, body)
		case <-timeout:
			t.Fatalf("%d messages did not come", len(want))
		}
	}
	consumer.Stop()
	<-consumer.StopChan
}

const negotiated = `{"feature_negotiation":true,"tls_v1":true}`

// upgradeTLS sends IDENTIFY and performs the handshake.
func (w *wire) upgradeTLS(config *tls.Config) (*wire, error) {
	w.t.Helper()
	w.send("IDENTIFY\n" + sized(negotiated))
	if answer := w.frame(); !strings.Contains(answer, `"tls_v1":true`) {
		w.t.Fatalf("answer %s", answer)
	}
	conn := tls.Client(w.Conn, config)
	secure := &wire{w.t, conn}
	if err := conn.Handshake(); err != nil {
		return nil, err
	}
	// With TLS 1.3 a refused client certificate shows at the first read.
	kind, data, err := nsq.NewFrameReader(secure, 100).Next()
	if err == nil && (kind != nsq.FrameResponse || string(data) != nsq.OK) {
		err = fmt.Errorf("frame %d %q", kind, data)
	}
	return secure, err
}

func TestTLSPolicies(t *testing.T) {
	stranger, own := certificate(t, "stranger"), certificate(t, "client")
	for _, tt := range []struct {
		policy tls.ClientAuthType
		cert   *tls.Certificate
		ok     bool
	}{
		{tls.NoClientCert, nil, true},
		{tls.RequireAnyClientCert, nil, false},
		{tls.RequireAnyClientCert, &stranger, true},
		{tls.RequireAndVerifyClientCert, nil, false},
		{tls.RequireAndVerifyClientCert, &stranger, false},
		{tls.RequireAndVerifyClientCert, &own, true},
	} {
		t.Run(fmt.Sprintf("%s %v", tt.policy, tt.cert != nil), func(t *testing.T) {
			h := newHarness(t, Options{TLS: serverTLS(own, tt.policy), TLSRequired: true})
			client := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // its own certificate
			if tt.cert != nil {
				client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return tt.cert, nil }
			}
			w, err := h.dial(t).upgradeTLS(client)
			if (err == nil) != tt.ok {
				t.Fatalf("upgrade: %v", err)
			}
			if err != nil {
				eventually(t, "the failure is counted", func() bool { return h.Stats().Ended[EndHandshake] == 1 })
				return
			}
			w.send("PUB t\n" + sized("a"))
			w.expect("OK")
			if s := h.Stats(); s.OpenTLS != 1 {
				t.Errorf("%d TLS connections", s.OpenTLS)
			}
			// A second IDENTIFY offers no second upgrade.
			w.send("IDENTIFY\n" + sized(negotiated))
			if answer := w.frame(); !strings.Contains(answer, `"tls_v1":false`) {
				t.Errorf("answer %s", answer)
			}
			w.send("HUH\n")
			w.expect("E_INVALID invalid command HUH", "EOF")
		})
	}
}

func TestTLSRequired(t *testing.T) {
	h := newHarness(t, Options{TLS: serverTLS(certificate(t, "server"), tls.NoClientCert), TLSRequired: true})
	for _, cmd := range []string{"PUB", "SUB", "NOP", "AUTH", "FIN"} {
		w := h.dial(t)
		w.send(cmd + " t\n")
		w.expect("E_INVALID cannot "+cmd+" in current state (TLS required)", "EOF")
	}
	w := h.dial(t)
	w.send("IDENTIFY\n" + sized("{}") + "NOP\n")
	w.expect("OK", "E_INVALID cannot NOP in current state (TLS required)", "EOF")
}

// TestReadAheadIsKeptAfterUpgrade sends the first bytes of the handshake
// with the IDENTIFY.
func TestReadAheadIsKeptAfterUpgrade(t *testing.T) {
	h := newHarness(t, Options{TLS: serverTLS(certificate(t, "server"), tls.NoClientCert)})
	w := h.dialRaw(t)
	joined := &joinedConn{Conn: w.Conn, first: []byte(nsq.Magic + "IDENTIFY\n" + sized(negotiated))}
	conn := tls.Client(joined, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // its own certificate
	secure := &wire{t, conn}
	secure.expect("OK")
	secure.send("PUB t\n" + sized("a"))
	secure.expect("OK")
}

// joinedConn prepends bytes to the first write, and removes the first frame from what is read.
type joinedConn struct {
	net.Conn
	first    []byte
	answered bool
}

func (c *joinedConn) Write(p []byte) (int, error) {
	if c.first == nil {
		return c.Conn.Write(p)
	}
	_, err := c.Conn.Write(append(c.first, p...))
	c.first = nil
	return len(p), err
}

func (c *joinedConn) Read(p []byte) (int, error) {
	if !c.answered {
		c.answered = true
		if _, _, err := nsq.NewFrameReader(c.Conn, 1<<10).Next(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(p)
}

package server

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/internal/certtest"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// guardedPipe is a server with one connection in a bubble, and its users.
func guardedPipe(t *testing.T, on bool, opts Options) (*Server, *book, net.Conn) {
	b := newBook(t)
	b.enable(on)
	opts.Guard = guard.New(guard.Options{Directory: b.d.Load, Changed: b.wait})
	srv, _, conn := pipeServer(t, opts)
	go srv.EnforceAccess(t.Context())
	return srv, b, conn
}

// TestConnectionEndsWithoutAuth: however far the client has come, and whatever else it sends.
func TestConnectionEndsWithoutAuth(t *testing.T) {
	own := serverTLS(certificate(t, "server"), tls.NoClientCert)
	for _, tt := range []struct {
		name, send string
		every      string // sent every second
	}{
		{name: "nothing"},
		{name: "half of the magic bytes", send: nsq.Magic[:2]},
		{name: "magic bytes", send: nsq.Magic},
		{name: "half of IDENTIFY", send: nsq.Magic + "IDENTIFY\n\x00\x00\x00\x10{"},
		{name: "IDENTIFY without heartbeats", send: nsq.Magic + "IDENTIFY\n" + sized(`{"heartbeat_interval":-1}`)},
		{name: "NOP", send: nsq.Magic, every: "NOP\n"},
		{name: "IDENTIFY again and again", send: nsq.Magic, every: "IDENTIFY\n" + sized(`{"heartbeat_interval":1000}`)},
		{name: "half of AUTH", send: nsq.Magic + "AUTH\n\x00\x00\x00\x50brk_"},
		{name: "no TLS handshake", send: nsq.Magic + "IDENTIFY\n" + sized(negotiated)},
		{name: "half of a TLS handshake", send: nsq.Magic + "IDENTIFY\n" + sized(negotiated) + "\x16\x03\x01\x02\x00\x01"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, _, conn := guardedPipe(t, true, Options{TLS: own})
				began := time.Now()
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				_, err := io.WriteString(conn, tt.send)
				for err == nil && time.Since(began) < time.Minute {
					if time.Sleep(time.Second); tt.every != "" {
						_, err = io.WriteString(conn, tt.every)
					}
					if srv.Stats().Open == 0 {
						break
					}
				}
				if took := time.Since(began); took < authTimeout || took > authTimeout+time.Second {
					t.Errorf("it ended after %v", took)
				}
			})
		})
	}
}

func TestClientKnowsWhyItsConnectionEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, conn := guardedPipe(t, true, Options{})
		w := &wire{t, conn}
		w.send(nsq.Magic)
		w.expect("E_AUTH_FIRST AUTH required within 5s", "EOF")
	})
}

func TestAuthenticatedConnectionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, conn := guardedPipe(t, true, Options{})
		joe, _ := b.token("joe", time.Time{})
		w := &wire{t, conn}
		time.Sleep(authTimeout - time.Nanosecond)
		w.send(nsq.Magic + authWith(joe))
		w.expect(joesAnswer)
		for range 3 {
			time.Sleep(20 * time.Second)
			w.send("PUB t\n" + sized("a"))
			w.expect("OK")
		}
		_ = conn.Close()
	})
}

// TestAuthIsDemandedOnceEnabled: connections that were open before have as long as new ones.
func TestAuthIsDemandedOnceEnabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, b, conn := guardedPipe(t, false, Options{})
		w := &wire{t, conn}
		w.send(nsq.Magic + "PUB t\n" + sized("a"))
		w.expect("OK")
		time.Sleep(20 * time.Second)
		began := time.Now()
		b.enable(true)
		w.expect("E_AUTH_FIRST AUTH required within 5s")
		if took := time.Since(began); took != authTimeout {
			t.Errorf("it ended after %v", took)
		}
		_ = conn.Close()
		synctest.Wait()
		if n := srv.waiting.all.Len() + len(srv.waiting.of); n != 0 {
			t.Errorf("%d connections are still expected to authenticate", n)
		}
	})
}

func TestInputBeforeAuthIsLimited(t *testing.T) {
	h, b := guarded(t, Options{})
	joe, _ := b.token("joe", time.Time{})
	identify := func(size int) string { return "IDENTIFY\n" + sized("{"+strings.Repeat(" ", size-2)+"}") }
	nops := func(n int) string { return strings.Repeat("NOP\n", n/4) }
	const first = "E_AUTH_FIRST AUTH required within 4096 bytes"
	for _, tt := range []struct {
		name, send string
		want       []string
	}{
		{"a long IDENTIFY", identify(4000) + authWith(joe), []string{"OK", joesAnswer}},
		{"a longer one", identify(authBytes), []string{"E_BAD_BODY IDENTIFY body too big 4096 > 4087", "EOF"}},
		{"two", identify(2000) + identify(2080), []string{"OK", "E_BAD_BODY IDENTIFY body too big 2080 > 2078", "EOF"}},
		{"as much as is allowed", nops(authBytes) + authWith(joe) + nops(authBytes) + "PUB t\n" + sized("a"), []string{joesAnswer, "OK"}},
		{"more", nops(authBytes + 4), []string{first, "EOF"}},
		{"a long line", strings.Repeat("x", 10000) + "\n", []string{first, "EOF"}},
		{"anything afterwards", authWith(joe) + "PUB t\n" + sized(strings.Repeat("x", 10000)), []string{joesAnswer, "OK"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := h.dial(t)
			w.send(tt.send)
			w.expect(tt.want...)
		})
	}
	b.enable(false)
	w := h.dial(t)
	w.send(identify(10000) + nops(10000) + "PUB t\n" + sized("a"))
	w.expect("OK", "OK")
}

// TestUnauthenticatedConnectionsLeaveRoom: however many there are, they keep no client with a token out, and end none
// that has authenticated.
func TestUnauthenticatedConnectionsLeaveRoom(t *testing.T) {
	const most = 12
	h, b := guarded(t, Options{MaxConnections: most})
	joe, _ := b.token("joe", time.Time{})
	var known []*wire
	for i := range most {
		for range most/authShare + 1 {
			h.dial(t)
		}
		w := h.dial(t)
		w.send(authWith(joe))
		w.expect(joesAnswer)
		known = append(known, w)
		h.mu.Lock()
		if n := h.waiting.all.Len(); n > most/authShare || len(h.sessions) > most {
			t.Errorf("%d connections, %d of them without AUTH, beside %d with", len(h.sessions), n, i+1)
		}
		h.mu.Unlock()
	}
	for _, w := range known {
		w.send("PUB t\n" + sized("a"))
		w.expect("OK")
	}
	if w := h.dialRaw(t); w.frame() != "E_INVALID too many connections" {
		t.Error("authenticated connections gave way")
	}
}

// TestOldestConnectionOfTheBusiestAddressGivesWay: others lose none.
func TestOldestConnectionOfTheBusiestAddressGivesWay(t *testing.T) {
	u := newUnauthenticated(16)
	var all []*session
	for i, place := range []string{"c", "b", "b", "a", "b", "a"} {
		c := &session{place: place, spent: i}
		all = append(all, c)
		u.add(c)
		u.add(c)
	}
	u.remove(all[2])
	u.remove(all[2])
	var left []string
	for c := u.next(); c != nil; c = u.next() {
		u.remove(c)
		left = append(left, fmt.Sprint(c.place, c.spent))
	}
	if got := strings.Join(left, " "); got != "b1 a3 c0 b4 a5" {
		t.Errorf("evicted %s", got)
	}
	if u.most != 4 || len(u.of) != 0 {
		t.Errorf("at most %d, left %v", u.most, u.of)
	}
	if n := newUnauthenticated(0).most; n != authMost {
		t.Errorf("at most %d without a limit of connections", n)
	}
}

// TestConnectionEndsWithItsCertificate, whether access control is on or not.
func TestConnectionEndsWithItsCertificate(t *testing.T) {
	for _, on := range []bool{false, true} {
		t.Run(fmt.Sprint(on), func(t *testing.T) {
			for valid := 500 * time.Millisecond; valid < testTimeout; valid *= 2 { // it may expire before the handshake
				own := certtest.Make(t, x509.Certificate{
					Subject: pkix.Name{CommonName: "ops"}, DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(valid + time.Second),
				}, nil)
				h, b := guarded(t, Options{TLS: serverTLS(own, tls.RequireAndVerifyClientCert)})
				b.enable(on)
				w, err := h.dial(t).upgradeTLS(&tls.Config{Certificates: []tls.Certificate{own}, InsecureSkipVerify: true}) //nolint:gosec // its own
				if err != nil {
					continue
				}
				w.send("PUB t\n" + sized("a"))
				if w.frame() != "OK" {
					continue
				}
				if got := w.frame(); !strings.HasPrefix(got, "E_AUTH_FAILED client certificate expired at ") {
					t.Errorf("%q", got)
				}
				w.expect("EOF")
				return
			}
			t.Error("the certificate is not accepted")
		})
	}
}

// TestCertificateOfUserNeedsNoAuth: it counts as AUTH from the handshake on.
func TestCertificateOfUserNeedsNoAuth(t *testing.T) {
	for name, known := range map[string]bool{"ops": true, "other": false} {
		own := certificate(t, name)
		h, _ := guarded(t, Options{TLS: serverTLS(own, tls.RequireAndVerifyClientCert)})
		_, err := h.dial(t).upgradeTLS(&tls.Config{Certificates: []tls.Certificate{own}, InsecureSkipVerify: true}) //nolint:gosec // its own
		if err != nil {
			t.Fatal(err)
		}
		h.mu.Lock()
		waiting := h.waiting.all.Len()
		h.mu.Unlock()
		if (waiting == 0) != known {
			t.Errorf("%s: %d connections must authenticate", name, waiting)
		}
	}
}

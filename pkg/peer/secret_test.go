package peer

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/internal/peertest"
)

func secrets(all ...string) func() [][]byte {
	return func() (out [][]byte) {
		for _, s := range all {
			out = append(out, []byte(s))
		}
		return out
	}
}

func TestNodesNeedTheSameSecret(t *testing.T) {
	for _, tt := range []struct {
		name         string
		dialer, node func() [][]byte
		want         Reason
	}{
		{"none", nil, nil, ReasonNone},
		{"the same", secrets("one"), secrets("one"), ReasonNone},
		{"the dialer's is the older one", secrets("old", "new"), secrets("new", "old"), ReasonNone},
		{"the dialer's is the newer one", secrets("new", "old"), secrets("old", "new"), ReasonNone},
		{"another one", secrets("one"), secrets("two"), ReasonSecret},
		{"one that begins like it", secrets("on"), secrets("one"), ReasonSecret},
		{"the dialer has none", nil, secrets("one"), ReasonSecret},
		{"only the dialer has one", secrets("one"), nil, ReasonSecret},
	} {
		for _, class := range []Class{ClassForward, ClassReplication, ClassForm, ClassRaft} {
			t.Run(tt.name+"/"+class.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := peertest.NewNetwork()
					var told events
					bo, ao := memOptions(n, "b"), memOptions(n, "a")
					bo.Secrets, ao.Secrets, bo.OnEvent = tt.node, tt.dialer, told.add
					bo.Handlers[ClassForm] = echo
					b, addr := node(t, bo, "b:1")
					b.RaftListener()
					a, _ := node(t, ao, "a:1")
					conn, _, err := a.dialFor(t.Context(), "b", class, addr)
					if err == nil {
						conn.Close()
					}
					if tt.want == ReasonNone && err != nil || tt.want != ReasonNone && refusal(t, err).Reason != tt.want {
						t.Errorf("got %v, want %s", err, tt.want)
					}
					if _, err := a.Ping(t.Context(), addr); err != nil {
						t.Errorf("a ping needs no secret: %v", err)
					}
					synctest.Wait()
					if rejected := told.of(EventRejected); (len(rejected) == 1) != (tt.want != ReasonNone) {
						t.Errorf("told %v", told.all)
					}
					a.Close()
					b.Close()
				})
			})
		}
	}
}

// tapped is a Network that keeps all data in both directions.
type tapped struct {
	Network
	mu   sync.Mutex
	said []byte
}

func (n *tapped) note(b []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.said = append(n.said, b...)
}

func (n *tapped) Listen(address string) (net.Listener, error) {
	l, err := n.Network.Listen(address)
	return &tappedListener{l, n}, err
}

type tappedListener struct {
	net.Listener
	n *tapped
}

func (l *tappedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tappedConn{c, l.n}, nil
}

type tappedConn struct {
	net.Conn
	n *tapped
}

func (c *tappedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.n.note(b[:n])
	return n, err
}

func (c *tappedConn) Write(b []byte) (int, error) {
	c.n.note(b)
	return c.Conn.Write(b)
}

func TestSecretDoesNotCrossTheWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := peertest.NewNetwork()
		n := &tapped{Network: mem}
		bo, ao := memOptions(n, "b"), memOptions(mem, "a")
		bo.Secrets, ao.Secrets = secrets("correct horse battery"), secrets("correct horse battery")
		b, addr := node(t, bo, "b:1")
		a, _ := node(t, ao, "a:1")
		if _, err := a.Peer("b", ClassForward, addr).Call(t.Context(), 1, nil); err != nil {
			t.Fatal(err)
		}
		a.Close()
		b.Close()
		if len(n.said) == 0 || bytes.Contains(n.said, []byte("horse")) {
			t.Errorf("said %q", n.said)
		}
	})
}

// shown sends a member's hello with a chosen nonce, and then proof. It returns
// the acceptor's hello, its proof, and the data after them.
func shown(t *testing.T, n Network, addr string, h *Hello, proof func(answer *Hello, theirs []byte) []byte) (*Hello, error) {
	t.Helper()
	conn := pipeTo(t, n, "x", addr)
	conn.Write(encodeHello(h))
	answer, err := readHello(conn)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := readProof(conn)
	if err != nil {
		t.Fatal(err)
	}
	conn.Write(encodeHelloBody(append([]byte{typeProof}, proof(answer, theirs)...)))
	body, err := readHelloBody(conn)
	if err == nil && body[0] == typeRefusal {
		err = parseRefusal(body)
	}
	return answer, err
}

func TestProofIsValidForOneConnectionAndSide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		o := memOptions(n, "b")
		o.Secrets = secrets("one")
		b, addr := node(t, o, "b:1")
		h := &Hello{MinVersion: 1, MaxVersion: 1, Class: ClassForward, ClusterID: "c1", Node: "a", Session: 9, Proves: true}
		var first []byte
		_, err := shown(t, n, addr, h, func(answer *Hello, _ []byte) []byte {
			first = prove([]byte("one"), dialerSide, h, answer)
			return first
		})
		if err != nil {
			t.Errorf("who has the secret: %v", err)
		}
		for name, proof := range map[string]func(*Hello, []byte) []byte{
			"said before":        func(*Hello, []byte) []byte { return first },
			"the acceptor's own": func(_ *Hello, theirs []byte) []byte { return theirs },
			"of no secret":       func(answer *Hello, _ []byte) []byte { return prove(nil, dialerSide, h, answer) },
			"of another dialer":  func(a *Hello, _ []byte) []byte { o := *h; o.Node = "c"; return prove([]byte("one"), dialerSide, &o, a) },
			"nothing but zeroes": func(*Hello, []byte) []byte { return make([]byte, 32) },
			"of another's session": func(a *Hello, _ []byte) []byte {
				o := *h
				o.Session = 8
				return prove([]byte("one"), dialerSide, &o, a)
			},
		} {
			if _, err := shown(t, n, addr, h, proof); err == nil || refusal(t, err).Reason != ReasonSecret {
				t.Errorf("%s: %v", name, err)
			}
		}
		b.Close()
	})
}

func TestImpostorIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		l, err := n.Listen("b:1")
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() { // it has no secret, and shows something
			conn, err := l.Accept()
			if err != nil {
				got <- err
				return
			}
			defer conn.Close()
			h, err := readHello(conn)
			if err != nil {
				got <- err
				return
			}
			answer := &Hello{MinVersion: 1, MaxVersion: 1, Class: h.Class, ClusterID: "c1", Node: "b", Session: h.Session, Proves: true}
			conn.Write(encodeHello(answer))
			conn.Write(encodeHelloBody(append([]byte{typeProof}, make([]byte, 32)...)))
			_, err = readProof(conn)
			got <- err
		}()
		o := memOptions(n, "a")
		o.Secrets = secrets("one")
		a, _ := node(t, o, "a:1")
		_, err = a.Peer("b", ClassForward, "b:1").Call(t.Context(), 1, nil)
		if r := refusal(t, err); r.Reason != ReasonSecret || !r.Local {
			t.Errorf("got %v", err)
		}
		if r := refusal(t, <-got); r.Reason != ReasonSecret {
			t.Errorf("the pretender got %v", r)
		}
		l.Close()
		a.Close()
	})
}

func TestFramesOfStrangersAreSmall(t *testing.T) {
	for _, tt := range []struct {
		class Class
		size  int
		taken bool
	}{
		{ClassPing, 1, false},
		{ClassForm, maxVisitorFrame, true},
		{ClassForm, maxVisitorFrame + 1, false},
		{ClassForward, maxVisitorFrame + 1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := peertest.NewNetwork()
			o := memOptions(n, "b")
			o.Handlers[ClassForm] = echo
			b, addr := node(t, o, "b:1")
			conn := pipeTo(t, n, "x", addr)
			conn.Write(encodeHello(&Hello{MinVersion: 1, MaxVersion: 1, Class: tt.class, ClusterID: "c1", Node: "x", Session: 9}))
			if _, err := readHello(conn); err != nil {
				t.Fatal(err)
			}
			header, _ := encodeHeader(1, 0, 1, [][]byte{make([]byte, tt.size)})
			conn.Write(header[:])
			go conn.Write(make([]byte, tt.size))
			_, err := io.ReadFull(conn, make([]byte, frameHeader))
			if (err == nil) != tt.taken {
				t.Errorf("%s, %d bytes: %v", tt.class, tt.size, err)
			}
			conn.Close()
			b.Close()
		})
	}
}

func TestStrangersDoNotKeepMembersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		o := memOptions(n, "b")
		o.MaxVisitors, o.MaxVisitorsHost = 4, 2
		b, addr := node(t, o, "b:1")
		said := []net.Conn{pipeTo(t, n, "x", addr), pipeTo(t, n, "x", addr)}
		for _, c := range said {
			c.Write(encodeHello(&Hello{MinVersion: 1, MaxVersion: 1, Class: ClassPing, Node: "x", Session: 9}))
			if _, err := readHello(c); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := io.ReadAll(pipeTo(t, n, "x", addr)); len(got) != 0 || err != nil {
			t.Errorf("a third of one host: %x, %v", got, err)
		}
		for range 8 { // they are verified at once
			c := pipeTo(t, n, "y", addr)
			c.Write(encodeHello(&Hello{MinVersion: 1, MaxVersion: 1, Class: ClassForward, ClusterID: "c1", Node: "y", Session: 9}))
			if _, err := readHello(c); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		b.Close()
	})
}

func TestShortConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := peertest.NewNetwork()
		o := memOptions(n, "b")
		b, addr := node(t, o, "b:1")
		conn := pipeTo(t, n, "x", addr)
		conn.Write(encodeHello(&Hello{MinVersion: 1, MaxVersion: 1, Class: ClassPing, Node: "x", Session: 9}))
		if _, err := readHello(conn); err != nil {
			t.Fatal(err)
		}
		go func() { // it pings without end
			for id := uint64(1); ; id++ {
				header, _ := encodeHeader(0, flagControl, id, nil)
				if _, err := conn.Write(header[:]); err != nil {
					return
				}
				beat.Pause(t.Context(), DefaultKeepAlive)
			}
		}()
		if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("ended with %v", err)
		}
		conn.Close()
		b.Close()
	})
}

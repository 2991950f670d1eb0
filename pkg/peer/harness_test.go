package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handlerFunc is a function as a Handler.
type handlerFunc func(from Node, session uint64, kind uint8, payload []byte, reply func([][]byte, error))

func (f handlerFunc) Handle(from Node, session uint64, kind uint8, payload []byte, reply func([][]byte, error)) {
	f(from, session, kind, payload, reply)
}

// echo answers with its request.
var echo handlerFunc = func(_ Node, _ uint64, _ uint8, payload []byte, reply func([][]byte, error)) {
	reply([][]byte{append([]byte(nil), payload...)}, nil)
}

// events keeps the events of a transport.
type events struct {
	mu  sync.Mutex
	all []Event
}

func (e *events) add(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, ev)
}

// of returns the events of a kind so far.
func (e *events) of(k EventKind) []Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	var some []Event
	for _, ev := range e.all {
		if ev.Kind == k {
			some = append(some, ev)
		}
	}
	return some
}

// node starts a transport that serves on address, and stops it at the end of
// the test. It returns the actual address.
func node(t testing.TB, o Options, address string) (*Transport, string) {
	t.Helper()
	tr, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr, serve(t, tr, address)
}

// serve lets a transport listen until it is closed.
func serve(t testing.TB, tr *Transport, address string) string {
	t.Helper()
	l, err := tr.options.Network.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- tr.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		tr.Close()
		if err := <-done; err != nil && !errors.Is(err, errClosed) { // closed before it began
			t.Errorf("Serve ended with %v", err)
		}
	})
	return l.Addr().String()
}

// memOptions returns options for a node on a network in memory, with echo as
// the handler of both classes of calls.
func memOptions(n Network, self Node) Options {
	return Options{
		Self: self, Network: n, LocalAddr: string(self), Build: "test",
		ClusterID: func() string { return "c1" }, Incarnation: seedOf(string(self)),
		Handlers: map[Class]Handler{ClassReplication: echo, ClassForward: echo},
	}
}

// tcpOptions returns the same on the loopback interface, for a busy machine: no
// peer counts as dead within a minute.
func tcpOptions(self Node) Options {
	o := memOptions(TCP{}, self)
	o.LocalAddr = "127.0.0.1"
	o.DialTimeout, o.HandshakeTimeout, o.WriteTimeout, o.DeadAfter = time.Minute, time.Minute, time.Minute, time.Minute
	return o
}

// numbered returns a payload with a number.
func numbered(n uint64) [][]byte {
	return [][]byte{binary.LittleEndian.AppendUint64(nil, n)}
}

// refusal returns the refusal in an error, or fails.
func refusal(t testing.TB, err error) *RefusedError {
	t.Helper()
	r, ok := errors.AsType[*RefusedError](err)
	if !ok {
		t.Fatalf("got %v, want a refusal", err)
	}
	return r
}

// pipeTo returns one end of a connection to address on a network.
func pipeTo(t testing.TB, n Network, from, address string) net.Conn {
	t.Helper()
	conn, err := n.Dial(context.Background(), from, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

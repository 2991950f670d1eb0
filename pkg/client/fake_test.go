package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// peer is the broker's end of one connection, controlled by a test.
type peer struct {
	t  *testing.T
	nc net.Conn
	in *bufio.Reader
}

// expect reads exactly want.
func (p peer) expect(want string) {
	got := make([]byte, len(want))
	if n, err := io.ReadFull(p.in, got); err != nil || string(got) != want {
		p.t.Errorf("the broker got %q, %v, want %q", got[:n], err, want)
	}
}

// line reads a command.
func (p peer) line() string {
	text, err := p.in.ReadString('\n')
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(text, "\n")
}

// body reads a body after its size.
func (p peer) body() string {
	var size [4]byte
	if _, err := io.ReadFull(p.in, size[:]); err != nil {
		return ""
	}
	raw := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(p.in, raw); err != nil {
		return ""
	}
	return string(raw)
}

func (p peer) send(kind uint32, data string) {
	raw := binary.BigEndian.AppendUint32(nil, uint32(len(data)+4))
	raw = binary.BigEndian.AppendUint32(raw, kind)
	_, _ = p.nc.Write(append(raw, data...)) // the client may have disconnected
}

func (p peer) ok() { p.send(0, "OK") }

func (p peer) fails(text string) { p.send(1, text) }

func (p peer) message(id, body string) {
	raw := binary.BigEndian.AppendUint64(nil, 1_000_000_000)
	raw = binary.BigEndian.AppendUint16(raw, 2)
	p.send(2, string(raw)+id+body)
}

// greet reads IDENTIFY and answers.
func (p peer) greet(answer string) {
	p.expect("  V2IDENTIFY\n")
	p.body()
	p.send(0, answer)
}

// subscribed reads the first commands of a consumer.
func (p peer) subscribed(ready string) {
	p.greet(`{"max_rdy_count":2500,"msg_timeout":60000}`)
	p.expect("SUB t c\n")
	p.ok()
	p.expect(ready)
}

// drain reads until the client disconnects.
func (p peer) drain() { _, _ = io.Copy(io.Discard, p.in) }

// fakeNet is a network of scripted brokers: the n-th connection to an address runs the n-th script;
// without a script it is refused.
type fakeNet struct {
	t *testing.T

	mu      sync.Mutex
	scripts map[string][]func(peer)
	dials   []time.Time
	playing sync.WaitGroup
}

func newFakeNet(t *testing.T, scripts map[string][]func(peer)) *fakeNet {
	return &fakeNet{t: t, scripts: scripts}
}

func (f *fakeNet) dial(_ context.Context, _, address string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dials = append(f.dials, time.Now())
	left := f.scripts[address]
	if len(left) == 0 {
		return nil, errors.New("connection refused")
	}
	f.scripts[address] = left[1:]
	near, far := net.Pipe()
	f.playing.Go(func() {
		defer func() { _ = far.Close() }()
		left[0](peer{f.t, far, bufio.NewReader(far)})
	})
	return near, nil
}

// client returns a client of the network that is closed before the test ends.
func (f *fakeNet) client(addresses []string, options ...Option) *Client {
	f.t.Helper()
	c, err := New(addresses, append([]Option{WithDialer(f.dial), WithHeartbeat(time.Minute)}, options...)...)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// end closes a client, and waits for the scripts.
func (f *fakeNet) end(c *Client) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		f.t.Errorf("close: %v", err)
	}
	f.playing.Wait()
}

const node = "broker:4150"

// one is a network with one broker that runs scripts for its connections.
func one(t *testing.T, scripts ...func(peer)) *fakeNet {
	return newFakeNet(t, map[string][]func(peer){node: scripts})
}

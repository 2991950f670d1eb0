package nsqclient

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/brokerd/brokerd/pkg/nsq"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broker is the other end of a connection, played by the test.
type broker struct {
	t  *testing.T
	nc net.Conn
}

// expect reads exactly want.
func (b broker) expect(want string) {
	got := make([]byte, len(want))
	if _, err := io.ReadFull(b.nc, got); err != nil || string(got) != want {
		b.t.Errorf("the broker got %q, %v, want %q", got, err, want)
	}
}

func (b broker) send(kind nsq.FrameType, data string) {
	raw := binary.BigEndian.AppendUint32(nil, uint32(len(data)+4))
	raw = binary.BigEndian.AppendUint32(raw, uint32(kind))
	if _, err := b.nc.Write(append(raw, data...)); err != nil {
		b.t.Errorf("the broker cannot send: %v", err)
	}
}

func (b broker) sendMessage(id, body string) {
	raw := binary.BigEndian.AppendUint64(nil, 1_000_000_000)
	raw = binary.BigEndian.AppendUint16(raw, 2)
	b.send(nsq.FrameMessage, string(raw)+id+body)
}

// body reads a body after its size.
func (b broker) body() string {
	var size [4]byte
	if _, err := io.ReadFull(b.nc, size[:]); err != nil {
		b.t.Error(err)
	}
	raw := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(b.nc, raw); err != nil {
		b.t.Error(err)
	}
	return string(raw)
}

func (b broker) greet(answer string) {
	b.expect("  V2IDENTIFY\n")
	b.body()
	b.send(nsq.FrameResponse, answer)
}

// open returns a connection to a broker that plays script on its own goroutine.
// The script has ended when the test has.
func open(t *testing.T, o Options, script func(broker)) (*Conn, error) {
	t.Helper()
	near, far := net.Pipe()
	played := make(chan struct{})
	go func() {
		defer close(played)
		defer func() { _ = far.Close() }()
		script(broker{t, far})
	}()
	c, err := New(t.Context(), near, o)
	t.Cleanup(func() {
		_ = near.Close()
		<-played
	})
	return c, err
}

func mustOpen(t *testing.T, o Options, script func(broker)) *Conn {
	t.Helper()
	c, err := open(t, o, script)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	idA = "000000000000000a"
	idB = "000000000000000b"
)

func TestAConsumerTakesFinishesAndLeaves(t *testing.T) {
	c := mustOpen(t, Options{}, func(b broker) {
		b.greet(`{"max_rdy_count":2500,"version":"1.3.0"}`)
		b.expect("SUB t c 3\n")
		b.send(nsq.FrameResponse, nsq.Heartbeat)
		b.expect("NOP\n")
		b.send(nsq.FrameResponse, "OK")
		b.expect("RDY 2\n")
		b.sendMessage(idA, "one")
		b.expect("FIN " + idA + "\n")
		b.send(nsq.FrameResponse, nsq.Heartbeat)
		b.expect("NOP\n")
		b.send(nsq.FrameError, "E_FIN_FAILED FIN failed")
		b.sendMessage(idB, "two")
		b.expect("REQ " + idB + " 1500\nCLS\n")
		b.send(nsq.FrameResponse, nsq.CloseWait)
	})
	if c.MaxReady() != 2500 {
		t.Errorf("largest ready count %d, want 2500", c.MaxReady())
	}
	if err := c.Subscribe(t.Context(), "t", "c", 3); err != nil {
		t.Fatal(err)
	}
	c.Ready(2)
	var got []string
	err := c.Run(t.Context(), func(m Message) {
		got = append(got, string(m.Body))
		if m.Attempts != 2 || !m.Timestamp.Equal(time.Unix(1, 0)) {
			t.Errorf("attempts %d at %s", m.Attempts, m.Timestamp)
		}
		if m.ID.String() == idA {
			c.Finish(m.ID)
			return
		}
		c.Requeue(m.ID, 1500*time.Millisecond)
		c.Stop()
	})
	if err != nil || !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAConnectionEndsWithAReason(t *testing.T) {
	tests := []struct {
		name   string
		script func(broker)
		want   string
	}{
		{"fatal error", func(b broker) { b.send(nsq.FrameError, "E_INVALID cannot RDY in current state") }, "E_INVALID cannot RDY in current state"},
		{"answer to nothing", func(b broker) { b.send(nsq.FrameResponse, "OK") }, `unexpected response "OK"`},
		{"unknown frame", func(b broker) { b.send(7, "") }, "unexpected frame type 7"},
		{"short message", func(b broker) { b.send(nsq.FrameMessage, "abc") }, "message frame too short"},
		{"frame without type", func(b broker) { _, _ = b.nc.Write([]byte{0, 0, 0, 3, 0, 0, 0, 0}) }, "a frame of 3 bytes"},
		{"huge frame", func(b broker) { _, _ = b.nc.Write([]byte{0xff, 0, 0, 0, 0, 0, 0, 0}) }, "a frame of 4278190080 bytes"},
		{"half a frame", func(b broker) { _, _ = b.nc.Write([]byte{0, 0, 0, 9, 0, 0, 0, 0, 'x'}) }, "unexpected EOF"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := mustOpen(t, Options{}, func(b broker) { b.greet("OK"); tc.script(b) })
			if err := c.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestTheGreetingMayFail(t *testing.T) {
	tests := []struct {
		name   string
		script func(broker)
		want   string
	}{
		{"an HTTP server", func(b broker) {
			b.expect("  V2IDENTIFY\n")
			b.body()
			_, _ = io.WriteString(b.nc, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}, "this is an HTTP address"},
		{"refused", func(b broker) {
			b.expect("  V2IDENTIFY\n")
			b.body()
			b.send(nsq.FrameError, "E_BAD_BODY IDENTIFY msg timeout (1) is invalid")
		}, "E_BAD_BODY IDENTIFY msg timeout (1) is invalid"},
		{"bad answer", func(b broker) { b.greet("{") }, "not an NSQ endpoint"},
		{"bad secret", func(b broker) {
			b.greet(`{"auth_required":true}`)
			b.expect("AUTH\n\x00\x00\x00\x01s")
			b.send(nsq.FrameError, "E_AUTH_FAILED AUTH failed")
		}, "auth: E_AUTH_FAILED AUTH failed"},
		{"hung up", func(broker) {}, "closed pipe"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := open(t, Options{Secret: "s"}, tc.script); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestASilentBrokerIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mustOpen(t, Options{Heartbeat: time.Second}, func(b broker) {
			b.greet("OK")
			_, _ = io.Copy(io.Discard, b.nc)
		})
		start := time.Now()
		err := c.Run(t.Context(), nil)
		if e, ok := errors.AsType[net.Error](err); !ok || !e.Timeout() || time.Since(start) != 2*time.Second {
			t.Errorf("after %s: %v, want a timeout after two heartbeats", time.Since(start), err)
		}
	})
}

func TestAContextEndsWhatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _ = far.Close() }()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := New(ctx, near, Options{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("greeting: %v, want the context's error", err)
		}
	})
	c := mustOpen(t, Options{}, func(b broker) { b.greet("OK"); _, _ = io.Copy(io.Discard, b.nc) })
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := c.Run(ctx, nil); !errors.Is(err, cause) {
		t.Errorf("run: %v, want the cause", err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 0, 0, 6, 0, 0, 0, 0, 'O', 'K'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	f.Add([]byte("HTTP/1.1 400"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := newFrameReader(strings.NewReader(string(raw)))
		var read int
		for {
			frame, err := r.next()
			if err != nil {
				break
			}
			read += 8 + len(frame.data)
			_, _ = frame.asMessage()
			_ = frame.asError().Error()
		}
		if read > len(raw) {
			t.Errorf("read %d bytes of %d", read, len(raw))
		}
	})
}

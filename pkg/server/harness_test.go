package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brokerd/brokerd/pkg/nsq"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testTimeout = 30 * time.Second

// harness is a server on a loopback port with a fake broker.
type harness struct {
	*Server
	broker *fakeBroker
	addr   string
}

func newHarness(t testing.TB, opts Options) *harness {
	t.Helper()
	b := newFakeBroker()
	opts.Cluster = fakeCluster
	srv, err := New(opts, Broker{b, b, b}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-served; !errors.Is(err, ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
		if open := srv.Stats().Open; open != 0 {
			t.Errorf("%d connections open after Shutdown", open)
		}
	})
	return &harness{srv, b, ln.Addr().String()}
}

// wire is a client that sends and reads raw bytes.
type wire struct {
	t testing.TB
	net.Conn
}

func (h *harness) dialRaw(t testing.TB) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(testTimeout)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &wire{t, conn}
}

func (h *harness) dial(t testing.TB) *wire {
	w := h.dialRaw(t)
	w.send(nsq.Magic)
	return w
}

func (w *wire) send(text string) {
	w.t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		w.t.Fatalf("send: %v", err)
	}
}

// frame reads the next frame that is not a heartbeat, as text.
func (w *wire) frame() string {
	w.t.Helper()
	for {
		kind, data, err := nsq.NewFrameReader(w, 64<<20).Next()
		switch {
		case errors.Is(err, io.EOF):
			return "EOF"
		case err != nil:
			w.t.Fatalf("reading a frame: %v", err)
		case kind == nsq.FrameMessage:
			m, err := nsq.ParseMessage(data)
			if err != nil {
				w.t.Fatal(err)
			}
			return fmt.Sprintf("message %s %d %d %s", m.ID, m.Timestamp, m.Attempts, m.Body)
		case string(data) != nsq.Heartbeat:
			return string(data)
		}
	}
}

func (w *wire) expect(frames ...string) {
	w.t.Helper()
	for i, want := range frames {
		if got := w.frame(); got != want {
			w.t.Fatalf("frame %d:\n got %q\nwant %q", i, got, want)
		}
	}
}

func (w *wire) sub(topic string, ready int) {
	w.t.Helper()
	w.send("SUB " + topic + " c\n")
	w.expect("OK")
	w.send(fmt.Sprintf("RDY %d\n", ready))
}

func sized(body string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
}

func mpub(topic string, bodies ...string) string {
	var b strings.Builder
	_ = binary.Write(&b, binary.BigEndian, uint32(len(bodies)))
	for _, body := range bodies {
		b.WriteString(sized(body))
	}
	return "MPUB " + topic + "\n" + sized(b.String())
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(testTimeout)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("did not happen: %s", what)
		}
	}
}

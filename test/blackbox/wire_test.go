package blackbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

const (
	frameResponse = 0
	frameError    = 1
	frameMessage  = 2
)

// wire is a client that sends and reads raw bytes. It answers heartbeats and does not return them.
type wire struct {
	t testing.TB
	net.Conn
	beats int
}

// message is a message frame.
type message struct {
	timestamp int64
	attempts  uint16
	id, body  string
}

// raw opens a connection and sends nothing.
func (n *node) raw() *wire {
	n.t.Helper()
	conn, err := net.Dial("tcp", n.address("TCP"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = conn.Close() })
	return &wire{t: n.t, Conn: conn}
}

// dial opens a connection of the V2 protocol.
func (n *node) dial() *wire {
	n.t.Helper()
	w := n.raw()
	w.send("  V2")
	return w
}

// identify opens a connection with settings, a JSON object.
func (n *node) identify(settings string) *wire {
	n.t.Helper()
	w := n.dial()
	w.send("IDENTIFY\n" + sized(settings))
	w.ok()
	return w
}

// consumer opens a connection that consumes.
func (n *node) consumer(topic, channel string, ready int, settings string) *wire {
	n.t.Helper()
	w := n.identify(settings)
	w.send(fmt.Sprintf("SUB %s %s\n", topic, channel))
	w.ok()
	if ready > 0 {
		w.send(fmt.Sprintf("RDY %d\n", ready))
	}
	return w
}

func sized(body string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
}

func pub(topic, body string) string { return "PUB " + topic + "\n" + sized(body) }

func mpub(topic string, bodies ...string) string {
	var b strings.Builder
	b.Write(binary.BigEndian.AppendUint32(nil, uint32(len(bodies))))
	for _, body := range bodies {
		b.WriteString(sized(body))
	}
	return "MPUB " + topic + "\n" + sized(b.String())
}

func (w *wire) send(data string) {
	w.t.Helper()
	if _, err := io.WriteString(w, data); err != nil {
		w.t.Fatal(err)
	}
}

// frame reads one frame of any type.
func (w *wire) frame(within time.Duration) (kind uint32, data string, err error) {
	if err := w.SetReadDeadline(time.Now().Add(within)); err != nil {
		return 0, "", err
	}
	var head [8]byte
	if _, err := io.ReadFull(w, head[:]); err != nil {
		return 0, "", err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > 16<<20 {
		return 0, "", fmt.Errorf("a frame of %d bytes", size)
	}
	body := make([]byte, size-4)
	_, err = io.ReadFull(w, body)
	return binary.BigEndian.Uint32(head[4:]), string(body), err
}

// eachMessage calls do with the id of each message that arrives, until do or the connection fails.
func (w *wire) eachMessage(do func(id string) error) {
	for {
		kind, data, err := w.next(patience)
		if err != nil {
			return
		}
		if kind == frameMessage && do(data[10:26]) != nil {
			return
		}
	}
}

// finish sends FIN. It does not end the test if that fails: the connection may have been closed.
func (w *wire) finish(id string) error {
	_, err := io.WriteString(w, "FIN "+id+"\n")
	return err
}

// next reads the next frame that is not a heartbeat.
func (w *wire) next(within time.Duration) (kind uint32, data string, err error) {
	deadline := time.Now().Add(within)
	for {
		kind, data, err = w.frame(time.Until(deadline))
		if err != nil || kind != frameResponse || data != "_heartbeat_" {
			return kind, data, err
		}
		w.beats++
		if _, err := io.WriteString(w, "NOP\n"); err != nil {
			return 0, "", err
		}
	}
}

// response expects a response and returns it.
func (w *wire) response() string {
	w.t.Helper()
	kind, data, err := w.next(patience)
	if err != nil || kind != frameResponse {
		w.t.Fatalf("frame %d %q %v, want a response", kind, data, err)
	}
	return data
}

func (w *wire) ok() {
	w.t.Helper()
	if got := w.response(); got != "OK" {
		w.t.Fatalf("answered %q, want OK", got)
	}
}

// fails expects an error frame that begins with text.
func (w *wire) fails(text string) string {
	w.t.Helper()
	kind, data, err := w.next(patience)
	if err != nil || kind != frameError || !strings.HasPrefix(data, text) {
		w.t.Fatalf("frame %d %q %v, want the error %q", kind, data, err, text)
	}
	return data
}

// closed expects the end of the stream and nothing before it.
func (w *wire) closed() {
	w.t.Helper()
	if kind, data, err := w.next(patience); !errors.Is(err, io.EOF) {
		w.t.Fatalf("frame %d %q %v, want the end", kind, data, err)
	}
}

// message expects a message.
func (w *wire) message() message {
	w.t.Helper()
	m, ok := w.messageWithin(patience)
	if !ok {
		w.t.Fatal("no message")
	}
	return m
}

// messageWithin returns the next message, if one arrives in time.
func (w *wire) messageWithin(within time.Duration) (message, bool) {
	w.t.Helper()
	kind, data, err := w.next(within)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return message{}, false
	}
	if err != nil || kind != frameMessage || len(data) < 26 {
		w.t.Fatalf("frame %d %q %v, want a message", kind, data, err)
	}
	return message{
		int64(binary.BigEndian.Uint64([]byte(data[:8]))), binary.BigEndian.Uint16([]byte(data[8:10])), data[10:26], data[26:],
	}, true
}

// silent expects no message for a while.
func (w *wire) silent(d time.Duration) {
	w.t.Helper()
	if m, ok := w.messageWithin(d); ok {
		w.t.Fatalf("unexpected message %+v", m)
	}
}

func (w *wire) fin(m message) { w.t.Helper(); w.send("FIN " + m.id + "\n") }
func (w *wire) req(m message, delay time.Duration) {
	w.t.Helper()
	w.send(fmt.Sprintf("REQ %s %d\n", m.id, delay.Milliseconds()))
}

// alive checks that the connection is still served.
func (w *wire) alive(topic string) {
	w.t.Helper()
	w.send(pub(topic, "alive"))
	w.ok()
}

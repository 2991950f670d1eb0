package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/brokerd/brokerd/test/crash/audit"
)

// The frames of the NSQ protocol.
const (
	frameResponse = 0
	frameError    = 1
	frameMessage  = 2

	maxFrame      = 16 << 20
	messageHeader = 8 + 2 + len(audit.ID{})
)

// ioTimeout ends a connection on which nothing moves: the broker sends a
// heartbeat more often.
const ioTimeout = 40 * time.Second

// client is one connection. One goroutine may read while another writes.
type client struct {
	net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

// dial connects and identifies.
func dial(address, id string) (*client, error) {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return nil, err
	}
	c := &client{conn, bufio.NewReaderSize(conn, 64<<10), bufio.NewWriterSize(conn, 64<<10)}
	settings, err := json.Marshal(map[string]any{
		"client_id": id, "user_agent": "brokerd-crash/1", "msg_timeout": msgTimeout.Milliseconds(),
	})
	if err == nil {
		c.w.WriteString("  V2IDENTIFY\n")
		c.body(settings)
		err = c.expect("OK")
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

// body adds a sized body to what is to be sent.
func (c *client) body(b []byte) {
	c.w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b))))
	c.w.Write(b)
}

// mpub adds an MPUB of several bodies, pub a PUB or, with a delay, a DPUB.
func (c *client) mpub(topic string, bodies [][]byte) {
	size := 4
	for _, b := range bodies {
		size += 4 + len(b)
	}
	fmt.Fprintf(c.w, "MPUB %s\n", topic)
	c.w.Write(binary.BigEndian.AppendUint32(nil, uint32(size)))
	c.w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(bodies))))
	for _, b := range bodies {
		c.body(b)
	}
}

func (c *client) pub(topic string, delay time.Duration, b []byte) {
	if delay > 0 {
		fmt.Fprintf(c.w, "DPUB %s %d\n", topic, delay.Milliseconds())
	} else {
		fmt.Fprintf(c.w, "PUB %s\n", topic)
	}
	c.body(b)
}

// command sends a command without a body, at once.
func (c *client) command(words ...string) error {
	for i, w := range words {
		if i > 0 {
			c.w.WriteByte(' ')
		}
		c.w.WriteString(w)
	}
	c.w.WriteByte('\n')
	return c.flush()
}

func (c *client) flush() error {
	if err := c.SetWriteDeadline(time.Now().Add(ioTimeout)); err != nil {
		return err
	}
	return c.w.Flush()
}

// frame reads one frame. Its data is the caller's.
func (c *client) frame() (kind int, data []byte, err error) {
	if err := c.SetReadDeadline(time.Now().Add(ioTimeout)); err != nil {
		return 0, nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[:4])
	if size < 4 || size > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes", size)
	}
	data = make([]byte, size-4)
	_, err = io.ReadFull(c.r, data)
	return int(binary.BigEndian.Uint32(head[4:])), data, err
}

// answer reads the next frame that is no heartbeat.
func (c *client) answer() (kind int, data []byte, err error) {
	for {
		kind, data, err = c.frame()
		if err != nil || kind != frameResponse || !bytes.Equal(data, []byte("_heartbeat_")) {
			return kind, data, err
		}
		if err := c.command("NOP"); err != nil {
			return 0, nil, err
		}
	}
}

// expect sends what is buffered and wants one response.
func (c *client) expect(response string) error {
	if err := c.flush(); err != nil {
		return err
	}
	kind, data, err := c.answer()
	if err != nil {
		return err
	}
	if kind != frameResponse || string(data) != response {
		return fmt.Errorf("the broker answered %q, not %q", data, response)
	}
	return nil
}

// delivery is a message as it arrives.
type delivery struct {
	id   audit.ID
	body []byte
}

// parseMessage splits the data of a message frame.
func parseMessage(data []byte) (delivery, error) {
	if len(data) < messageHeader {
		return delivery{}, fmt.Errorf("a message frame of %d bytes", len(data))
	}
	d := delivery{body: data[messageHeader:]}
	copy(d.id[:], data[10:messageHeader])
	return d, nil
}

// ready tells the broker how many messages may be in flight.
func (c *client) ready(n int) error { return c.command("RDY", strconv.Itoa(n)) }

// Package wire is the client of the programs that test a broker: one connection
// of the NSQ protocol, and message bodies that name their producer.
//
// It sends what the caller passes and returns what it receives. It does not
// reconnect, retry or interpret answers: the programs test that.
package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/brokerd/brokerd/test/audit"
)

// The frames of the NSQ protocol.
const (
	FrameResponse = 0
	FrameError    = 1
	FrameMessage  = 2

	maxFrame      = 16 << 20
	bufferSize    = 64 << 10
	messageHeader = 8 + 2 + len(audit.ID{})
)

// DefaultTimeout ends a connection on which nothing moves: the broker sends a
// heartbeat more often.
const DefaultTimeout = 40 * time.Second

// dialTimeout is how long to wait for a connection at most.
const dialTimeout = time.Second

// ErrQuiet means that no data arrived before the deadline.
var ErrQuiet = errors.New("nothing arrived before the deadline")

// Options are the IDENTIFY options of a client.
type Options struct {
	ID         string
	UserAgent  string
	MsgTimeout time.Duration // 0: the broker's default
	Timeout    time.Duration // of each read and write; 0: DefaultTimeout
	Token      string        // sent with AUTH; "": none
}

// Client is one connection. One goroutine may read while another writes.
type Client struct {
	net.Conn
	r       *bufio.Reader
	w       *bufio.Writer
	timeout time.Duration
}

// Dial connects, identifies and, with a token, authenticates.
func Dial(address string, o Options) (*Client, error) {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	conn, err := net.DialTimeout("tcp", address, min(o.Timeout, dialTimeout))
	if err != nil {
		return nil, err
	}
	c := newClient(conn, o.Timeout)
	settings, err := json.Marshal(map[string]any{
		"client_id": o.ID, "user_agent": o.UserAgent, "msg_timeout": o.MsgTimeout.Milliseconds(),
	})
	if err == nil {
		c.w.WriteString("  V2IDENTIFY\n")
		c.body(settings)
		err = c.Expect("OK")
	}
	if err == nil && o.Token != "" {
		err = c.auth(o.Token)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func newClient(conn net.Conn, timeout time.Duration) *Client {
	return &Client{conn, bufio.NewReaderSize(conn, bufferSize), bufio.NewWriterSize(conn, bufferSize), timeout}
}

func (c *Client) auth(token string) error {
	c.w.WriteString("AUTH\n")
	c.body([]byte(token))
	kind, data, err := c.Exchange()
	if err == nil && kind != FrameResponse {
		err = fmt.Errorf("the broker answered AUTH with %q", data)
	}
	return err
}

// body appends a body with its size to the output.
func (c *Client) body(b []byte) {
	c.w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b))))
	c.w.Write(b)
}

// MPub buffers an MPUB of several bodies. The topic may be followed by a space
// and a partition.
func (c *Client) MPub(topic string, bodies [][]byte) {
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

// Pub buffers a PUB, whose topic may be followed by a space and a partition, or,
// with a delay, a DPUB.
func (c *Client) Pub(topic string, delay time.Duration, b []byte) {
	if delay > 0 {
		fmt.Fprintf(c.w, "DPUB %s %d\n", topic, delay.Milliseconds())
	} else {
		fmt.Fprintf(c.w, "PUB %s\n", topic)
	}
	c.body(b)
}

// Command sends a command without a body, at once.
func (c *Client) Command(words ...string) error {
	for i, w := range words {
		if i > 0 {
			c.w.WriteByte(' ')
		}
		c.w.WriteString(w)
	}
	c.w.WriteByte('\n')
	return c.Flush()
}

// Flush sends the buffered data.
func (c *Client) Flush() error {
	if err := c.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	return c.w.Flush()
}

// frame reads one frame. Its data is the caller's.
func (c *Client) frame() (kind int, data []byte, err error) {
	if err := c.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
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

// Answer reads the next frame that is no heartbeat.
func (c *Client) Answer() (kind int, data []byte, err error) {
	for {
		kind, data, err = c.frame()
		if err != nil || kind != FrameResponse || !bytes.Equal(data, []byte("_heartbeat_")) {
			return kind, data, err
		}
		if err := c.Command("NOP"); err != nil {
			return 0, nil, err
		}
	}
}

// AnswerBefore is Answer, but returns ErrQuiet if only heartbeats have arrived before the
// deadline.
func (c *Client) AnswerBefore(deadline time.Time) (kind int, data []byte, err error) {
	for {
		if err := c.await(deadline); err != nil {
			return 0, nil, err
		}
		kind, data, err = c.frame()
		if err != nil || kind != FrameResponse || !bytes.Equal(data, []byte("_heartbeat_")) {
			return kind, data, err
		}
		if err := c.Command("NOP"); err != nil {
			return 0, nil, err
		}
	}
}

// await waits until something has begun to arrive.
func (c *Client) await(deadline time.Time) error {
	if c.r.Buffered() > 0 {
		return nil
	}
	if err := c.SetReadDeadline(deadline); err != nil {
		return err
	}
	_, err := c.r.Peek(1)
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return ErrQuiet
	}
	return err
}

// endedWait is how long Ended waits.
const endedWait = time.Millisecond

// Ended reports whether the broker has closed the connection, as far as that has arrived: data
// sent from then on is not answered.
func (c *Client) Ended() bool {
	err := c.await(time.Now().Add(endedWait))
	return err != nil && !errors.Is(err, ErrQuiet)
}

// Exchange sends the buffered data and reads the next answer.
func (c *Client) Exchange() (kind int, data []byte, err error) {
	if err := c.Flush(); err != nil {
		return 0, nil, err
	}
	return c.Answer()
}

// Expect sends the buffered data and expects one response.
func (c *Client) Expect(response string) error {
	kind, data, err := c.Exchange()
	if err != nil {
		return err
	}
	if kind != FrameResponse || string(data) != response {
		return fmt.Errorf("the broker answered %q, not %q", data, response)
	}
	return nil
}

// Delivery is a message as it arrives.
type Delivery struct {
	ID   audit.ID
	Body []byte // a part of the frame's data
}

// ParseMessage splits the data of a message frame.
func ParseMessage(data []byte) (Delivery, error) {
	if len(data) < messageHeader {
		return Delivery{}, fmt.Errorf("a message frame of %d bytes", len(data))
	}
	d := Delivery{Body: data[messageHeader:]}
	copy(d.ID[:], data[10:messageHeader])
	return d, nil
}

// Ready sets how many messages may be in flight.
func (c *Client) Ready(n int) error { return c.Command("RDY", strconv.Itoa(n)) }

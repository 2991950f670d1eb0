package nsqclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// Defaults of Options.
const (
	DefaultHeartbeat = 30 * time.Second
)

// Options configures a Conn. The zero value is useful.
type Options struct {
	ClientID   string
	Hostname   string
	UserAgent  string
	Secret     string        // for a broker that requires AUTH
	Heartbeat  time.Duration // 0: DefaultHeartbeat
	MsgTimeout time.Duration // 0: the broker's default
}

// Conn is one connection. Open it with New or Dial, perhaps Subscribe, then let
// one goroutine Run it; the other methods may be called by any goroutine.
type Conn struct {
	nc     net.Conn
	frames frameReader
	server identified
	beat   time.Duration
	wake   chan struct{} // says that out has something

	mu     sync.Mutex // guards the fields below
	out    []byte     // commands that are to be written
	closed bool
}

// Dial connects to a broker and identifies.
func Dial(ctx context.Context, address string, o Options) (*Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fate.Mark(err, fate.Refused)
	}
	return New(ctx, nc, o)
}

// New identifies on an open connection, which the Conn then owns. It is closed
// on an error.
func New(ctx context.Context, nc net.Conn, o Options) (*Conn, error) {
	if o.Heartbeat == 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	c := &Conn{
		nc:     nc,
		frames: newFrameReader(nc),
		beat:   o.Heartbeat,
		wake:   make(chan struct{}, 1),
	}
	if err := c.greet(ctx, o); err != nil {
		_ = nc.Close() // the first error counts
		return nil, err
	}
	return c, nil
}

func (c *Conn) greet(ctx context.Context, o Options) error {
	cmd := appendIdentify([]byte(nsq.Magic), identify{
		ClientID: o.ClientID, Hostname: o.Hostname, UserAgent: o.UserAgent, FeatureNegotiation: true,
		HeartbeatInterval: o.Heartbeat.Milliseconds(), MsgTimeout: o.MsgTimeout.Milliseconds(),
	})
	answer, err := c.ask(ctx, cmd)
	if err != nil {
		return fmt.Errorf("identify: %w", err)
	}
	if bytes.HasPrefix(answer, []byte("{")) {
		if err := json.Unmarshal(answer, &c.server); err != nil {
			return fmt.Errorf("identify: %w: %w", errProtocol, err)
		}
	}
	if c.server.AuthRequired && o.Secret != "" {
		if _, err := c.ask(ctx, appendBody([]byte("AUTH\n"), []byte(o.Secret))); err != nil {
			return fmt.Errorf("auth: %w", err)
		}
	}
	return nil
}

// ask sends a command and waits for its answer. It is for the time before Run.
func (c *Conn) ask(ctx context.Context, cmd []byte) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.nc.SetDeadline(time.Unix(1, 0)) }) // ends what blocks
	defer stop()
	if _, err := c.nc.Write(cmd); err != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	for {
		f, err := c.frames.next()
		switch {
		case err != nil:
			return nil, errors.Join(context.Cause(ctx), err)
		case f.kind == nsq.FrameError:
			return nil, f.asError()
		case f.kind == nsq.FrameResponse && string(f.data) == nsq.Heartbeat:
			if _, err := c.nc.Write([]byte("NOP\n")); err != nil {
				return nil, err
			}
		case f.kind == nsq.FrameResponse:
			return f.data, nil
		default:
			return nil, fmt.Errorf("%w: unexpected frame of type %d", errProtocol, f.kind)
		}
	}
}

// MaxReady is the largest ready count that the broker takes; 0: it did not say.
func (c *Conn) MaxReady() int { return c.server.MaxRdyCount }

// Subscribe joins a channel, which is created if need be. It is called before
// Run. AnyPartition: all partitions that the node serves.
func (c *Conn) Subscribe(ctx context.Context, topic, channel string, partition int) error {
	cmd := appendPartition([]byte("SUB "+topic+" "+channel), partition)
	answer, err := c.ask(ctx, append(cmd, '\n'))
	if err != nil {
		return fmt.Errorf("subscribe to %s/%s: %w", topic, channel, err)
	}
	if string(answer) != nsq.OK {
		return fmt.Errorf("subscribe to %s/%s: %w: unexpected response %q", topic, channel, errProtocol, answer)
	}
	return nil
}

// Ready sets how many messages may be in flight here.
func (c *Conn) Ready(n int) {
	c.queue(func(dst []byte) []byte { return append(strconv.AppendInt(append(dst, "RDY "...), int64(n), 10), '\n') })
}

// Finish says that a message is done with.
func (c *Conn) Finish(id ID) {
	c.queue(func(dst []byte) []byte { return append(append(append(dst, "FIN "...), id[:]...), '\n') })
}

// Requeue gives a message back, to be delivered again after a delay.
func (c *Conn) Requeue(id ID, delay time.Duration) {
	c.queue(func(dst []byte) []byte {
		dst = append(append(append(dst, "REQ "...), id[:]...), ' ')
		return append(strconv.AppendInt(dst, delay.Milliseconds(), 10), '\n')
	})
}

// Stop ends a subscription: everything queued before it reaches the broker, and
// Run returns nil once the broker has said so.
func (c *Conn) Stop() {
	c.queue(func(dst []byte) []byte { return append(dst, "CLS\n"...) })
}

// queue appends a command; on a closed connection it does nothing.
func (c *Conn) queue(appendTo func([]byte) []byte) {
	c.mu.Lock()
	if !c.closed {
		c.out = appendTo(c.out)
	}
	c.mu.Unlock()
	c.signal()
}

func (c *Conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default: // the writer has yet to look
	}
}

// Close ends the connection at once, and Run returns.
func (c *Conn) Close() error { return c.nc.Close() }

package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/flate"

	"github.com/brokerd/brokerd/pkg/nsq"
)

// silentHeartbeats is the number of heartbeats that a broker may miss.
const silentHeartbeats = 2

// wanted holds the options of one connection in addition to those of the client.
type wanted struct {
	msgTimeout time.Duration // 0: the broker's default
	sampleRate int
	headers    bool // receive messages with headers
	tag        string
}

// open connects to a broker, identifies, and subscribes if a topic is given.
func open(ctx context.Context, cfg *config, address string, w wanted, o owner) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, cfg.dialTimeout)
	defer cancel()
	nc, err := cfg.dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	cn := &conn{
		address: address, nc: nc, owner: o, timeout: silentHeartbeats * cfg.heartbeat, headers: w.headers,
		wake: make(chan struct{}, 1), goodbye: make(chan struct{}), over: make(chan struct{}),
	}
	cn.use(nc, timedReader{nc, cn.timeout}, cfg.maxMessage)
	if err := cn.greet(ctx, cfg, w); err != nil {
		_ = nc.Close() // the first error is returned
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return cn, nil
}

// use replaces the reader and writer of the connection.
func (cn *conn) use(out io.Writer, in io.Reader, maxMessage int) {
	cn.out = out
	cn.in = bufio.NewReaderSize(in, readBuffer)
	cn.frames = nsq.NewFrameReader(cn.in, maxMessage+frameExtras)
}

// greet identifies, upgrades and authenticates.
func (cn *conn) greet(ctx context.Context, cfg *config, w wanted) error {
	stop := context.AfterFunc(ctx, func() { _ = cn.nc.Close() }) // unblocks reads and writes
	defer stop()
	cmd := appendIdentify([]byte(nsq.Magic), identify{
		ClientID: cfg.clientID, Hostname: cfg.hostname, UserAgent: cfg.userAgent, FeatureNegotiation: true,
		HeartbeatInterval: cfg.heartbeat.Milliseconds(), MsgTimeout: w.msgTimeout.Milliseconds(), SampleRate: w.sampleRate, ExtendSupport: w.headers, DesiredTag: w.tag,
		TLS: cfg.tls != nil, Snappy: cfg.compression == snappyStream,
		Deflate: cfg.compression == deflateStream, DeflateLevel: levelOf(cfg),
	})
	answer, err := cn.ask(ctx, cmd)
	if err != nil {
		return fmt.Errorf("identify: %w", err)
	}
	if bytes.HasPrefix(answer, []byte("{")) {
		if err := json.Unmarshal(answer, &cn.server); err != nil {
			return fmt.Errorf("identify: %w: %w", ErrProtocol, err)
		}
	}
	if err := cn.upgrade(ctx, cfg); err != nil {
		return err
	}
	switch {
	case !cn.server.AuthRequired:
	case cfg.secret == "":
		return errors.New("the broker requires AUTH: give a secret")
	default:
		if _, err := cn.ask(ctx, appendBody([]byte("AUTH\n"), []byte(cfg.secret))); err != nil {
			return fmt.Errorf("authorize: %w", err)
		}
	}
	return nil
}

func levelOf(cfg *config) int {
	if cfg.compression != deflateStream {
		return 0
	}
	return cfg.deflateLevel
}

// subscribe subscribes to a channel. It must be called before run.
func (cn *conn) subscribe(ctx context.Context, topic, channel string, p Partition) error {
	stop := context.AfterFunc(ctx, func() { _ = cn.nc.Close() })
	defer stop()
	cmd := "SUB " + topic + " " + channel
	if n, ok := p.number(); ok {
		cmd += fmt.Sprint(" ", n)
	}
	answer, err := cn.ask(ctx, []byte(cmd+"\n"))
	if err == nil && string(answer) != nsq.OK {
		err = fmt.Errorf("%w: unexpected response %.40q", ErrProtocol, answer)
	}
	if err != nil {
		return fmt.Errorf("subscribe to %s/%s at %s: %w", topic, channel, cn.address, err)
	}
	return nil
}

// ask sends a command and waits for its response. It must be called before run.
func (cn *conn) ask(ctx context.Context, cmd []byte) ([]byte, error) {
	if err := cn.write(cmd); err != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	return cn.await(ctx)
}

// await waits for a response.
func (cn *conn) await(ctx context.Context) ([]byte, error) {
	const http = "HTTP"
	if start, err := cn.in.Peek(len(http)); err == nil && string(start) == http {
		return nil, fmt.Errorf("%w: this is an HTTP address", ErrProtocol)
	}
	for {
		kind, data, err := cn.next()
		switch {
		case err != nil:
			return nil, errors.Join(context.Cause(ctx), err)
		case kind == nsq.FrameError:
			return nil, serverError(data)
		case kind == nsq.FrameResponse && string(data) == nsq.Heartbeat:
			if err := cn.write([]byte(cmdNOP + "\n")); err != nil {
				return nil, err
			}
		case kind == nsq.FrameResponse:
			return bytes.Clone(data), nil
		default:
			return nil, fmt.Errorf("%w: unexpected frame of type %d", ErrProtocol, kind)
		}
	}
}

// upgrade performs the upgrades that the broker has announced, each followed by its OK.
func (cn *conn) upgrade(ctx context.Context, cfg *config) error {
	stream := cn.nc
	if cfg.tls != nil {
		if !cn.server.TLS {
			return errors.New("the broker does not offer TLS")
		}
		secure := tls.Client(buffered{stream, cn.in}, tlsFor(cfg.tls, cn.address))
		if err := secure.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		stream = secure
		cn.use(secure, timedReader{secure, cn.timeout}, cfg.maxMessage)
		if err := cn.expectOK(ctx, "TLS"); err != nil {
			return err
		}
	}
	switch {
	case cn.server.Snappy && cfg.compression == snappyStream:
		w := snappy.NewBufferedWriter(stream)
		cn.flush = w.Flush
		cn.use(w, snappy.NewReader(cn.in), cfg.maxMessage)
		return cn.expectOK(ctx, "snappy")
	case cn.server.Deflate && cfg.compression == deflateStream:
		w, err := flate.NewWriter(stream, cfg.deflateLevel)
		if err != nil {
			return fmt.Errorf("deflate: %w", err)
		}
		cn.flush = w.Flush
		cn.use(w, flate.NewReader(cn.in), cfg.maxMessage)
		return cn.expectOK(ctx, "deflate")
	}
	return nil
}

func (cn *conn) expectOK(ctx context.Context, what string) error {
	answer, err := cn.await(ctx)
	if err == nil && string(answer) != nsq.OK {
		err = fmt.Errorf("%w: unexpected response %.40q", ErrProtocol, answer)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// tlsFor returns the configuration with the host name of the address.
func tlsFor(c *tls.Config, address string) *tls.Config {
	if c.ServerName != "" || c.InsecureSkipVerify {
		return c
	}
	c = c.Clone()
	if host, _, err := net.SplitHostPort(address); err == nil {
		c.ServerName = host
	}
	return c
}

// buffered returns data that was already read before reading from the connection.
type buffered struct {
	net.Conn
	in *bufio.Reader
}

// Read implements net.Conn.
func (b buffered) Read(p []byte) (int, error) { return b.in.Read(p) }

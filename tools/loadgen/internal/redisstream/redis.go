// Package redisstream loads Redis Streams over its own small RESP client, so
// that commands can be pipelined without a library in between.
package redisstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
)

// Config is the server's address.
type Config struct {
	Addr  string
	Count int // COUNT of each XREADGROUP
}

// Driver is the broker.Driver for Redis Streams.
type Driver struct{ c Config }

// New returns the driver for c.
func New(c Config) *Driver { return &Driver{c} }

const group = "g"

type conn struct {
	net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

func (d *Driver) dial(ctx context.Context) (*conn, error) {
	var nd net.Dialer
	nc, err := nd.DialContext(ctx, "tcp", d.c.Addr)
	if err != nil {
		return nil, err
	}
	return &conn{nc, bufio.NewReaderSize(nc, 128<<10), bufio.NewWriterSize(nc, 128<<10)}, nil
}

func (c *conn) head(kind byte, n int) {
	var b [24]byte
	s := strconv.AppendInt(append(b[:0], kind), int64(n), 10)
	c.w.Write(append(s, '\r', '\n'))
}

func (c *conn) bulk(s string) {
	c.head('$', len(s))
	c.w.WriteString(s)
	c.w.WriteString("\r\n")
}

func (c *conn) bulkBytes(b []byte) {
	c.head('$', len(b))
	c.w.Write(b)
	c.w.WriteString("\r\n")
}

func (c *conn) cmd(args ...string) {
	c.head('*', len(args))
	for _, a := range args {
		c.bulk(a)
	}
}

func (c *conn) xadd(topic string, body []byte) {
	c.head('*', 5)
	c.bulk("XADD")
	c.bulk(topic)
	c.bulk("*")
	c.bulk("b")
	c.bulkBytes(body)
}

// reply reads one reply: nil, string, int64 or []any. An error string is returned as the error.
func (c *conn) reply() (any, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("reply %q", line)
	}
	kind, rest := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, errors.New(rest)
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	}
	n, err := strconv.Atoi(rest)
	if err != nil {
		return nil, err
	}
	switch {
	case n < 0:
		return nil, nil
	case kind == '$':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case kind == '*':
		a := make([]any, n)
		for i := range a {
			if a[i], err = c.reply(); err != nil {
				return nil, err
			}
		}
		return a, nil
	}
	return nil, fmt.Errorf("reply of kind %q", kind)
}

func (c *conn) do(args ...string) (any, error) {
	c.cmd(args...)
	if err := c.w.Flush(); err != nil {
		return nil, err
	}
	return c.reply()
}

func (d *Driver) once(ctx context.Context, args ...string) (any, error) {
	c, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.do(args...)
}

// Create implements broker.Driver. A stream with no group is created by XADD.
func (d *Driver) Create(ctx context.Context, topic string, grp bool) error {
	if !grp {
		return nil
	}
	_, err := d.once(ctx, "XGROUP", "CREATE", topic, group, "0", "MKSTREAM")
	return err
}

// Delete implements broker.Driver.
func (d *Driver) Delete(ctx context.Context, topic string) error {
	_, err := d.once(ctx, "UNLINK", topic)
	return err
}

// Backlog implements broker.Driver.
func (d *Driver) Backlog(ctx context.Context, topic string) (int64, error) {
	r, err := d.once(ctx, "XINFO", "GROUPS", topic)
	if err != nil {
		return 0, err
	}
	groups, _ := r.([]any)
	if len(groups) != 1 {
		return 0, errors.New("no group")
	}
	g, _ := groups[0].([]any)
	var n int64
	for i := 0; i+1 < len(g); i += 2 {
		if k := g[i].(string); k == "pending" || k == "lag" {
			v, _ := g[i+1].(int64)
			n += v
		}
	}
	return n, nil
}

// Close implements broker.Driver.
func (d *Driver) Close() error { return nil }

type pending struct {
	n     int
	acked func(error)
}

type publisher struct {
	c     *conn
	topic string
	wait  chan pending
	done  chan struct{}
	once  sync.Once
}

// Publisher implements broker.Driver.
func (d *Driver) Publisher(ctx context.Context, topic string) (broker.Publisher, error) {
	c, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &publisher{c: c, topic: topic}, nil
}

// Publish implements broker.Publisher.
func (p *publisher) Publish(body []byte) error {
	p.c.xadd(p.topic, body)
	if err := p.c.w.Flush(); err != nil {
		return err
	}
	_, err := p.c.reply()
	return err
}

// Send implements broker.Publisher.
func (p *publisher) Send(bodies [][]byte, acked func(error)) error {
	if p.wait == nil {
		p.wait, p.done = make(chan pending, 1<<16), make(chan struct{})
		go p.replies()
	}
	select {
	case p.wait <- pending{len(bodies), acked}:
	case <-p.done:
		return errors.New("connection closed")
	}
	for _, b := range bodies {
		p.c.xadd(p.topic, b)
	}
	return p.c.w.Flush()
}

func (p *publisher) replies() {
	defer close(p.done)
	for w := range p.wait {
		var err error
		for i := 0; i < w.n && err == nil; i++ {
			err = p.id()
		}
		w.acked(err)
		if err != nil {
			return
		}
	}
}

// id reads the reply to one XADD without allocating.
func (p *publisher) id() error {
	line, err := p.c.r.ReadSlice('\n')
	if err != nil {
		return err
	}
	if line[0] != '$' {
		return errors.New(strings.TrimSpace(string(line)))
	}
	_, err = p.c.r.ReadSlice('\n')
	return err
}

// Close implements broker.Publisher.
func (p *publisher) Close() error {
	err := p.c.Close()
	if p.wait != nil {
		p.once.Do(func() { close(p.wait) })
		<-p.done
	}
	return err
}

type consumer struct {
	c     *conn
	topic string
	count string
}

// Consumer implements broker.Driver.
func (d *Driver) Consumer(ctx context.Context, topic string) (broker.Consumer, error) {
	c, err := d.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &consumer{c, topic, strconv.Itoa(d.c.Count)}, nil
}

// Run implements broker.Consumer. The XACKs of one XREADGROUP, one for each
// message, travel with the next XREADGROUP.
func (k *consumer) Run(ctx context.Context, handle func([]byte) error) error {
	acks := 0
	for {
		stopping := ctx.Err() != nil
		if !stopping {
			k.c.cmd("XREADGROUP", "GROUP", group, "c", "COUNT", k.count, "BLOCK", "200", "STREAMS", k.topic, ">")
		}
		if err := k.c.w.Flush(); err != nil {
			return err
		}
		for ; acks > 0; acks-- {
			if n, err := k.c.reply(); err != nil || n != int64(1) {
				return fmt.Errorf("XACK: %v, %w", n, err)
			}
		}
		if stopping {
			return nil
		}
		k.c.SetReadDeadline(time.Now().Add(30 * time.Second))
		r, err := k.c.reply()
		if err != nil {
			return err
		}
		if r == nil {
			continue
		}
		for _, e := range r.([]any)[0].([]any)[1].([]any) {
			id, fields := e.([]any)[0].(string), e.([]any)[1].([]any)
			if err := handle([]byte(fields[1].(string))); err != nil {
				return err
			}
			k.c.cmd("XACK", k.topic, group, id)
			acks++
		}
	}
}

// Close implements broker.Consumer.
func (k *consumer) Close() error { return k.c.Close() }

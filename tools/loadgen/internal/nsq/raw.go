package nsq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/brokerd/brokerd/tools/loadgen/internal/broker"
)

// Raw is the driver that speaks the protocol itself.
type Raw struct{ admin }

// NewRaw returns the raw driver for c.
func NewRaw(c Config) *Raw { return &Raw{admin{c}} }

type rawPublisher struct {
	c      *conn
	topics []string // used in turn
	turn   int
	head   []byte
	exts   *headers

	wmu     sync.Mutex // guards c.w once reading has started
	pending chan func(error)
	done    chan struct{}
}

// inFlight is the most commands that may wait for their response at once. The
// workloads keep fewer; it is only the size of a queue.
const inFlight = 1 << 16

// Publisher implements broker.Driver.
func (d *Raw) Publisher(ctx context.Context, topic string) (broker.Publisher, error) {
	c, err := d.dial(ctx, topic)
	if err != nil {
		return nil, err
	}
	topics := d.topics(topic)
	return &rawPublisher{c: c, topics: topics, turn: rand.IntN(len(topics)), exts: newHeaders(d.Keys, d.IDs)}, nil
}

// topic returns the one whose turn it is.
func (p *rawPublisher) topic() string {
	p.turn = (p.turn + 1) % len(p.topics)
	return p.topics[p.turn]
}

// command writes the line of a command, which ends with _EXT if messages have headers, and returns
// their headers.
func (p *rawPublisher) command(verb string, messages int) [][]byte {
	p.head = append(p.head[:0], verb...)
	if !p.exts.none() {
		p.head = append(p.head, "_EXT"...)
	}
	p.head = append(append(append(p.head, ' '), p.topic()...), '\n')
	p.c.w.Write(p.head)
	return p.exts.some(messages)
}

func (p *rawPublisher) pub(body []byte) { p.message(p.command("PUB", 1)[0], body) }

// message writes the size of a message, its header and its body.
func (p *rawPublisher) message(ext, body []byte) {
	p.c.writeLen(len(ext) + len(body))
	p.c.w.Write(ext)
	p.c.w.Write(body)
}

func (p *rawPublisher) mpub(bodies [][]byte) {
	exts := p.command("MPUB", len(bodies))
	size := 4
	for i, b := range bodies {
		size += 4 + len(exts[i]) + len(b)
	}
	p.c.writeLen(size)
	p.c.writeLen(len(bodies))
	for i, b := range bodies {
		p.message(exts[i], b)
	}
}

// Publish implements broker.Publisher. It reads the response itself: there is
// no other goroutine to hand it over.
func (p *rawPublisher) Publish(body []byte) error {
	p.pub(body)
	if err := p.c.w.Flush(); err != nil {
		return err
	}
	return p.c.expectOK()
}

func (p *rawPublisher) dpub(body []byte, delay time.Duration) {
	p.head = append(append(append(p.head[:0], "DPUB "...), p.topic()...), ' ')
	p.head = append(strconv.AppendInt(p.head, delay.Milliseconds(), 10), '\n')
	p.c.w.Write(p.head)
	p.c.writeLen(len(body))
	p.c.w.Write(body)
}

// SendDeferred is Send of one message that is to be delivered after a delay.
func (p *rawPublisher) SendDeferred(body []byte, delay time.Duration, acked func(error)) error {
	return p.write(func() { p.dpub(body, delay) }, acked)
}

// Send implements broker.Publisher.
func (p *rawPublisher) Send(bodies [][]byte, acked func(error)) error {
	if len(bodies) == 1 {
		return p.write(func() { p.pub(bodies[0]) }, acked)
	}
	return p.write(func() { p.mpub(bodies) }, acked)
}

// write writes one command that is answered with acked.
func (p *rawPublisher) write(command func(), acked func(error)) error {
	if p.pending == nil {
		p.pending = make(chan func(error), inFlight)
		p.done = make(chan struct{})
		go p.readResponses()
	}
	select {
	case p.pending <- acked:
	case <-p.done:
		return errors.New("connection closed")
	}
	p.wmu.Lock()
	defer p.wmu.Unlock()
	command()
	return p.c.w.Flush()
}

func (p *rawPublisher) readResponses() {
	defer close(p.done)
	var buf []byte
	fail := func(err error) {
		for {
			select {
			case f := <-p.pending:
				f(err)
			default:
				return
			}
		}
	}
	for {
		typ, data, err := p.c.frame(buf)
		if err != nil {
			fail(err)
			return
		}
		buf = data
		switch {
		case typ == frameResponse && string(data) == "OK":
			(<-p.pending)(nil)
		case typ == frameResponse && string(data) == "_heartbeat_":
			p.wmu.Lock()
			p.c.w.WriteString("NOP\n")
			err := p.c.w.Flush()
			p.wmu.Unlock()
			if err != nil {
				fail(err)
				return
			}
		case typ == frameError:
			(<-p.pending)(errors.New(string(data)))
		default:
			fail(fmt.Errorf("frame of type %d: %q", typ, data))
			return
		}
	}
}

// Close implements broker.Publisher.
func (p *rawPublisher) Close() error {
	err := p.c.Close()
	if p.done != nil {
		<-p.done
	}
	return err
}

type rawConsumer struct {
	c *conn
}

// Consumer implements broker.Driver.
func (d *Raw) Consumer(ctx context.Context, topic string) (broker.Consumer, error) {
	c, err := d.dial(ctx, topic)
	if err != nil {
		return nil, err
	}
	if err := c.subscribe(topic); err != nil {
		c.Close()
		return nil, fmt.Errorf("SUB: %w", err)
	}
	fmt.Fprintf(c.w, "RDY %s\n", strconv.Itoa(d.RDY))
	if err := c.w.Flush(); err != nil {
		c.Close()
		return nil, err
	}
	return &rawConsumer{c}, nil
}

// Run implements broker.Consumer. FINs are gathered while more input is
// already here and sent before it would wait for the broker.
func (k *rawConsumer) Run(ctx context.Context, handle func([]byte) error) error {
	stop := context.AfterFunc(ctx, func() { k.c.SetReadDeadline(time.Now()) })
	defer stop()
	var buf []byte
	fin := []byte("FIN 0123456789abcdef\n")
	for {
		if k.c.r.Buffered() < 8 && k.c.w.Buffered() > 0 {
			if err := k.c.w.Flush(); err != nil {
				return err
			}
		}
		typ, data, err := k.c.frame(buf)
		if err != nil {
			if ctx.Err() != nil {
				return k.c.w.Flush()
			}
			return err
		}
		buf = data
		switch {
		case typ == frameMessage && len(data) >= 26:
			err := handle(data[26:])
			if err == broker.ErrKeep {
				continue
			}
			if err != nil {
				return err
			}
			copy(fin[4:20], data[10:26])
			if _, err := k.c.w.Write(fin); err != nil {
				return err
			}
		case typ == frameResponse && string(data) == "_heartbeat_":
			k.c.w.WriteString("NOP\n")
			if err := k.c.w.Flush(); err != nil {
				return err
			}
		case typ == frameError:
			return fmt.Errorf("broker says %s", data)
		default:
			return fmt.Errorf("frame of type %d: %q", typ, data)
		}
	}
}

// Close implements broker.Consumer.
func (k *rawConsumer) Close() error { return k.c.Close() }

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/brokerd/brokerd/test/audit"
	"github.com/brokerd/brokerd/test/wire"
)

// userAgent names these clients.
const userAgent = "brokerd-test/1"

// How a consumer behaves: of a hundred messages it puts some back and holds
// some to finish them later, out of order; its connections do not live long.
const (
	requeuePercent = 4
	holdPercent    = 3
	maxHeld        = 20
	maxReady       = 200
	maxRequeue     = 500 * time.Millisecond
	minLife        = time.Second
	maxLife        = 6 * time.Second
	closeTimeout   = 2 * time.Second
)

// consumer is one connection of one consumer.
type consumer struct {
	l    *load
	rng  *rand.Rand
	conn *wire.Client
	name int
	id   int // of the connection
	most int // messages to hold: fewer than may be in flight, or none would come
	held []held
}

type held struct {
	key audit.Key
	id  audit.ID
}

// consume takes messages until ctx ends, over one connection after the other.
func (l *load) consume(ctx context.Context, name int) {
	rng := rand.New(rand.NewPCG(l.o.seed, uint64(1000+name)))
	d := dialer{nodes: l.nodes, next: name, o: wire.Options{
		ID: fmt.Sprintf("consumer-%d", name), UserAgent: userAgent, MsgTimeout: msgTimeout, Timeout: patience,
	}}
	for ctx.Err() == nil {
		conn := d.dial(ctx)
		if conn == nil {
			continue
		}
		c := &consumer{l: l, rng: rng, conn: conn, name: name}
		if !c.subscribe(name % len(channels)) {
			conn.Close()
			pause(ctx, reconnectPause)
			continue
		}
		l.where[name].Store(d.at())
		c.live(ctx)
		l.where[name].Store(nil)
	}
}

// subscribe joins the channel and tells the audit.
func (c *consumer) subscribe(channel int) bool {
	if c.conn.Command("SUB", topic, channels[channel]) != nil || c.conn.Expect("OK") != nil {
		return false
	}
	c.l.tell(func(a *audit.Audit, _ time.Duration) {
		c.l.conns++
		c.id = c.l.conns
		a.Connect(c.id, channel, 1)
	})
	ready := 1 + c.rng.IntN(maxReady)
	c.most = min(maxHeld, ready-1)
	if c.conn.Command("RDY", strconv.Itoa(ready)) != nil {
		c.close(false)
		return false
	}
	return true
}

// live handles what comes until the connection breaks, has lived long enough or
// is not wanted any more.
func (c *consumer) live(ctx context.Context) {
	life := minLife + time.Duration(c.rng.Int64N(int64(maxLife-minLife)))
	deadline := time.Now().Add(life)
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	defer stop()
	var err error
	for err == nil {
		kind, data, readErr := c.conn.AnswerBefore(deadline)
		switch {
		case readErr != nil:
			err = readErr
		case kind == wire.FrameMessage:
			err = c.handle(data)
		case kind == wire.FrameError:
			c.complain(data)
		}
		if err == nil && time.Now().After(deadline) {
			err = wire.ErrQuiet
		}
		if errors.Is(err, wire.ErrQuiet) && c.l.calm.Load() {
			deadline, err = time.Now().Add(life), c.finishHeld(0)
		}
	}
	clean := errors.Is(err, wire.ErrQuiet) && c.rng.IntN(2) == 0
	c.close(clean && c.farewell() == nil)
}

// farewell closes the subscription in order: at CLOSE_WAIT the broker has read
// everything that was sent before CLS. What still comes is not answered.
func (c *consumer) farewell() error {
	if err := c.conn.Command("CLS"); err != nil {
		return err
	}
	deadline := time.Now().Add(closeTimeout)
	for {
		kind, data, err := c.conn.AnswerBefore(deadline)
		switch {
		case err != nil:
			return err
		case kind == wire.FrameMessage:
			if _, err := c.receive(data); err != nil {
				return err
			}
		case kind == wire.FrameError:
			c.complain(data)
		case string(data) == "CLOSE_WAIT":
			return nil
		}
	}
}

func (c *consumer) close(clean bool) {
	c.l.tell(func(a *audit.Audit, now time.Duration) { a.Close(now, c.id, clean) })
	c.conn.Close()
}

// receive reads a message and tells the audit of it.
func (c *consumer) receive(data []byte) (held, error) {
	d, err := wire.ParseMessage(data)
	var key audit.Key
	if err == nil {
		key, err = wire.ParseBody(d.Body, c.l.o.seed)
	}
	if err != nil {
		c.l.tell(func(a *audit.Audit, now time.Duration) { a.Garbage(now, err.Error()) })
		return held{}, err
	}
	c.l.tell(func(a *audit.Audit, now time.Duration) { a.Deliver(now, c.id, key, wire.Sum(d.Body), d.ID) })
	c.l.taken[c.name].Add(1)
	return held{key, d.ID}, nil
}

// handle takes one message and answers it, now or later.
func (c *consumer) handle(data []byte) error {
	m, err := c.receive(data)
	if err != nil {
		return err
	}
	switch dice := c.rng.IntN(100); {
	case c.l.calm.Load():
		if err := c.finishHeld(0); err != nil {
			return err
		}
	case dice < requeuePercent:
		return c.requeue(m)
	case dice < requeuePercent+holdPercent:
		c.held = append(c.held, m)
		return c.finishHeld(c.most)
	}
	return c.finish(m)
}

// finishHeld finishes held messages in random order until at most n are left.
func (c *consumer) finishHeld(n int) error {
	for len(c.held) > n {
		i, last := c.rng.IntN(len(c.held)), len(c.held)-1
		m := c.held[i]
		c.held[i] = c.held[last]
		c.held = c.held[:last]
		if err := c.finish(m); err != nil {
			return err
		}
	}
	return nil
}

func (c *consumer) finish(m held) error {
	c.l.tell(func(a *audit.Audit, now time.Duration) { a.Finish(now, c.id, m.key) })
	return c.conn.Command("FIN", string(m.id[:]))
}

func (c *consumer) requeue(m held) error {
	delay := time.Duration(c.rng.Int64N(maxRequeue.Milliseconds())) * time.Millisecond
	if c.rng.IntN(3) == 0 {
		delay = 0
	}
	c.l.tell(func(a *audit.Audit, now time.Duration) { a.Requeue(now, c.id, m.key, delay) })
	return c.conn.Command("REQ", string(m.id[:]), strconv.FormatInt(delay.Milliseconds(), 10))
}

// complain passes on an error that says that a consumer did something wrong: none
// does. That a FIN came too late, since the message has moved on, is none.
func (c *consumer) complain(data []byte) {
	if rest, late := strings.CutPrefix(string(data), "E_FIN_FAILED FIN "); late && len(rest) >= len(audit.ID{}) {
		c.l.tell(func(a *audit.Audit, _ time.Duration) { a.Refuse(c.id, audit.ID([]byte(rest[:len(audit.ID{})]))) })
	}
	if wrong(data) {
		c.l.tell(func(a *audit.Audit, now time.Duration) { a.Complain(now, fmt.Sprintf("to a consumer: %s", data)) })
	}
}

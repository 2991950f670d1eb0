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

// How a consumer behaves: of a hundred messages it puts some back and holds
// some to finish them later, out of order; its connections do not live long.
const (
	requeuePercent = 4
	holdPercent    = 3
	maxHeld        = 20
	maxReady       = 200
	maxRequeue     = 500 * time.Millisecond
	minLife        = 300 * time.Millisecond
	maxLife        = 4 * time.Second
	closeTimeout   = 2 * time.Second
)

var errEnough = errors.New("the connection has lived long enough")

// consumer is one connection of one consumer.
type consumer struct {
	w    *world
	rng  *rand.Rand
	conn *wire.Client
	id   int // of the connection
	held []held
}

type held struct {
	key audit.Key
	id  audit.ID
}

// consume takes messages until ctx ends, over one connection after the other.
// subscribed is called when the first has joined its channel.
func (w *world) consume(ctx context.Context, name int, subscribed func()) {
	rng := rand.New(rand.NewPCG(w.o.seed, uint64(1000+name)))
	channel := name % len(channels)
	for ctx.Err() == nil {
		c := w.subscribe(rng, name, channel)
		if c == nil {
			pause(ctx, reconnectPause)
			continue
		}
		subscribed()
		c.live(ctx)
	}
}

// subscribe opens a connection that the audit knows. It is nil if there was no
// broker, or if it cannot be told which process it is connected to.
func (w *world) subscribe(rng *rand.Rand, name, channel int) *consumer {
	round := w.round.Load()
	conn, err := wire.Dial(w.address, clientOptions(fmt.Sprintf("consumer-%d", name)))
	if err != nil {
		return nil
	}
	if conn.Command("SUB", topic, channels[channel]) != nil || conn.Expect("OK") != nil || w.round.Load() != round {
		conn.Close()
		return nil
	}
	c := &consumer{w: w, rng: rng, conn: conn}
	w.tell(func(a *audit.Audit, _ time.Duration) {
		w.conns++
		c.id = w.conns
		a.Connect(c.id, channel, int(round))
	})
	if err := conn.Ready(1 + rng.IntN(maxReady)); err != nil {
		c.close(false)
		return nil
	}
	return c
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
		case errors.Is(readErr, wire.ErrQuiet):
			err = errEnough
		case readErr != nil:
			err = readErr
		case kind == wire.FrameMessage:
			err = c.handle(data)
		case kind == wire.FrameError:
			err = c.complain(data)
		}
		if err == nil && time.Now().After(deadline) {
			err = errEnough
		}
		if errors.Is(err, errEnough) && c.w.calm.Load() {
			deadline, err = time.Now().Add(life), c.finishHeld(0)
		}
	}
	clean := errors.Is(err, errEnough) && c.rng.IntN(2) == 0
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
			return c.complain(data)
		case string(data) == "CLOSE_WAIT":
			return nil
		}
	}
}

func (c *consumer) close(clean bool) {
	c.w.tell(func(a *audit.Audit, now time.Duration) { a.Close(now, c.id, clean) })
	c.conn.Close()
}

// receive reads a message and tells the audit of it.
func (c *consumer) receive(data []byte) (held, error) {
	d, err := wire.ParseMessage(data)
	var key audit.Key
	if err == nil {
		key, err = wire.ParseBody(d.Body, c.w.o.seed)
	}
	if err != nil {
		c.w.tell(func(a *audit.Audit, now time.Duration) { a.Garbage(now, err.Error()) })
		return held{}, err
	}
	c.w.tell(func(a *audit.Audit, now time.Duration) { a.Deliver(now, c.id, key, wire.Sum(d.Body), d.ID) })
	return held{key, d.ID}, nil
}

// handle takes one message and answers it, now or later.
func (c *consumer) handle(data []byte) error {
	m, err := c.receive(data)
	if err != nil {
		return err
	}
	switch dice := c.rng.IntN(100); {
	case c.w.calm.Load():
		if err := c.finishHeld(0); err != nil {
			return err
		}
	case dice < requeuePercent:
		return c.requeue(m)
	case dice < requeuePercent+holdPercent:
		c.held = append(c.held, m)
		return c.finishHeld(maxHeld)
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
	c.w.tell(func(a *audit.Audit, now time.Duration) { a.Finish(now, c.id, m.key) })
	return c.conn.Command("FIN", string(m.id[:]))
}

func (c *consumer) requeue(m held) error {
	delay := time.Duration(c.rng.Int64N(maxRequeue.Milliseconds())) * time.Millisecond
	if c.rng.IntN(3) == 0 {
		delay = 0
	}
	c.w.tell(func(a *audit.Audit, now time.Duration) { a.Requeue(now, c.id, m.key, delay) })
	return c.conn.Command("REQ", string(m.id[:]), strconv.FormatInt(delay.Milliseconds(), 10))
}

// complain passes on an error that the broker sent: nothing that a consumer
// does is wrong. It ends the connection.
func (c *consumer) complain(data []byte) error {
	err := fmt.Errorf("to a consumer: %s", data)
	if strings.HasPrefix(string(data), "E_") {
		c.w.tell(func(a *audit.Audit, now time.Duration) { a.Complain(now, err.Error()) })
	}
	return err
}

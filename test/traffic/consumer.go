package traffic

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

// Behaviour of a consumer: out of a hundred messages it requeues some and finishes some later, out
// of order; its connections are short-lived.
const (
	requeuePercent = 4
	holdPercent    = 3
	maxHeld        = 20
	maxReady       = 200
	maxRequeue     = 500 * time.Millisecond
	closeTimeout   = 2 * time.Second
)

// Consumer is one connection of one consumer.
type Consumer struct {
	Book             *Book
	RNG              *rand.Rand
	Conn             *wire.Client
	MinLife, MaxLife time.Duration
	Moving           bool   // messages move between nodes
	Taken            func() // called when a message was received

	id   int // of the connection
	most int // messages held unanswered: fewer than may be in flight, otherwise no more would be delivered
	held []held
}

type held struct {
	key audit.Key
	id  audit.ID
}

// Subscribe subscribes to a channel, and reports the round to the audit. still reports whether the
// broker is still the one of that round.
func (c *Consumer) Subscribe(channel int, name string, round int, still func() bool) bool {
	if c.Conn.Command("SUB", c.Book.Topic, name) != nil || c.Conn.Expect("OK") != nil || !still() {
		c.Conn.Close()
		return false
	}
	c.id = c.Book.connect(channel, round)
	ready := 1 + c.RNG.IntN(maxReady)
	c.most = min(maxHeld, ready-1)
	if c.Conn.Ready(ready) != nil {
		c.close(false)
		return false
	}
	return true
}

// Live handles messages until the connection breaks, has lasted long enough, or must end.
func (c *Consumer) Live(ctx context.Context) {
	life := c.MinLife + time.Duration(c.RNG.Int64N(int64(c.MaxLife-c.MinLife)))
	deadline := time.Now().Add(life)
	stop := context.AfterFunc(ctx, func() { c.Conn.Close() })
	defer stop()
	var err error
	for err == nil {
		kind, data, readErr := c.Conn.AnswerBefore(deadline)
		switch {
		case readErr != nil:
			err = readErr
		case kind == wire.FrameMessage:
			err = c.handle(data)
		case kind == wire.FrameError:
			err = c.complain(data)
		}
		if err == nil && time.Now().After(deadline) {
			err = wire.ErrQuiet
		}
		if errors.Is(err, wire.ErrQuiet) && c.Book.Calm.Load() {
			deadline, err = time.Now().Add(life), c.finishHeld(0)
		}
	}
	clean := errors.Is(err, wire.ErrQuiet) && c.RNG.IntN(2) == 0
	c.close(clean && c.farewell() == nil)
}

// farewell closes the subscription cleanly: after CLOSE_WAIT, the broker has read everything sent
// before CLS. Further messages are not answered.
func (c *Consumer) farewell() error {
	if err := c.Conn.Command("CLS"); err != nil {
		return err
	}
	deadline := time.Now().Add(closeTimeout)
	for {
		kind, data, err := c.Conn.AnswerBefore(deadline)
		switch {
		case err != nil:
			return err
		case kind == wire.FrameMessage:
			if _, err := c.receive(data); err != nil {
				return err
			}
		case kind == wire.FrameError:
			if err := c.complain(data); err != nil {
				return err
			}
		case string(data) == "CLOSE_WAIT":
			return nil
		}
	}
}

func (c *Consumer) close(clean bool) {
	c.Book.Tell(func(a *audit.Audit, now time.Duration) { a.Close(now, c.id, clean) })
	c.Conn.Close()
}

// receive reads a message and reports it to the audit.
func (c *Consumer) receive(data []byte) (held, error) {
	d, err := wire.ParseMessage(data)
	var key audit.Key
	if err == nil {
		key, err = wire.ParseBody(d.Body, c.Book.Seed)
	}
	if err != nil {
		c.Book.Tell(func(a *audit.Audit, now time.Duration) { a.Garbage(now, err.Error()) })
		return held{}, err
	}
	c.Book.Tell(func(a *audit.Audit, now time.Duration) { a.Deliver(now, c.id, key, wire.Sum(d.Body), d.ID) })
	c.Taken()
	return held{key, d.ID}, nil
}

// handle answers a message, now or later.
func (c *Consumer) handle(data []byte) error {
	m, err := c.receive(data)
	if err != nil {
		return err
	}
	switch dice := c.RNG.IntN(100); {
	case c.Book.Calm.Load():
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
func (c *Consumer) finishHeld(n int) error {
	for len(c.held) > n {
		i, last := c.RNG.IntN(len(c.held)), len(c.held)-1
		m := c.held[i]
		c.held[i] = c.held[last]
		c.held = c.held[:last]
		if err := c.finish(m); err != nil {
			return err
		}
	}
	return nil
}

func (c *Consumer) finish(m held) error {
	c.Book.Tell(func(a *audit.Audit, now time.Duration) { a.Finish(now, c.id, m.key) })
	return c.Conn.Command("FIN", string(m.id[:]))
}

func (c *Consumer) requeue(m held) error {
	delay := time.Duration(c.RNG.Int64N(maxRequeue.Milliseconds())) * time.Millisecond
	if c.RNG.IntN(3) == 0 {
		delay = 0
	}
	c.Book.Tell(func(a *audit.Audit, now time.Duration) { a.Requeue(now, c.id, m.key, delay) })
	return c.Conn.Command("REQ", string(m.id[:]), strconv.FormatInt(delay.Milliseconds(), 10))
}

// complain reports an error that accuses a consumer of a mistake, because consumers make none. If
// messages move between nodes, a late FIN is not a mistake. Any other error ends the connection.
func (c *Consumer) complain(data []byte) error {
	if !c.Moving {
		err := fmt.Errorf("to a consumer: %s", data)
		c.Book.Tell(func(a *audit.Audit, now time.Duration) { a.Complain(now, err.Error()) })
		return err
	}
	if rest, late := strings.CutPrefix(string(data), "E_FIN_FAILED FIN "); late && len(rest) >= len(audit.ID{}) {
		c.Book.Tell(func(a *audit.Audit, _ time.Duration) { a.Refuse(c.id, audit.ID([]byte(rest[:len(audit.ID{})]))) })
	}
	if Wrong(data) {
		c.Book.Tell(func(a *audit.Audit, now time.Duration) { a.Complain(now, fmt.Sprintf("to a consumer: %s", data)) })
	}
	return nil
}

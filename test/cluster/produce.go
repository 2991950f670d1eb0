package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/brokerd/brokerd/test/audit"
	"github.com/brokerd/brokerd/test/wire"
)

// What a producer sends at a time.
const (
	maxBurst = 4  // commands before it reads the answers
	maxBatch = 10 // messages in an MPUB
	maxDelay = 1500 * time.Millisecond
	homing   = 250 * time.Millisecond // between two attempts to go back to the first node
)

// producer is one publisher through all its connections. It never sends a message
// twice: a second copy in the broker is the broker's.
type producer struct {
	l    *load
	rng  *rand.Rand
	name int
	next int // number of the next message
	conn *wire.Client
	d    dialer
	home time.Time // when it tries next to go back to its first node
}

// produce publishes until ctx ends.
func (l *load) produce(ctx context.Context, name int) {
	p := &producer{l: l, name: name, rng: rand.New(rand.NewPCG(l.o.seed, uint64(1+name)))}
	p.d = dialer{nodes: l.nodes, next: name, o: wire.Options{ID: fmt.Sprintf("producer-%d", name), UserAgent: userAgent, Timeout: patience}}
	pace := time.Duration(int64(time.Second) * int64(l.o.producers) / int64(l.o.rate)) // for a message
	for ctx.Err() == nil {
		if p.conn == nil {
			p.conn = p.d.dial(ctx)
			continue
		}
		p.goHome(ctx)
		before := p.next
		if l.stats().Owed < maxOpen {
			p.burst()
		}
		pause(ctx, time.Duration(max(1, p.next-before))*pace)
	}
	if p.conn != nil {
		p.conn.Close()
	}
}

// goHome has a producer that went on elsewhere come back to the node that it began
// at, once that is there again. A node prefers the partitions that it leads: if all
// producers stayed with one that was never disturbed, the others' partitions would
// get nothing, and consumers there would wait for ever.
func (p *producer) goHome(ctx context.Context) {
	if p.d.at() == p.l.nodes[p.name%len(p.l.nodes)] || time.Now().Before(p.home) {
		return
	}
	began, d := time.Now(), p.d
	d.next = p.name
	if conn := d.dial(ctx); conn != nil {
		p.conn.Close()
		p.conn, p.d = conn, d
	}
	p.home = time.Now().Add(homing + 4*time.Since(began)) // one that hangs is asked seldom
}

// burst sends some commands and reads their answers. A connection that breaks
// leaves the fate of what it had not answered open.
func (p *producer) burst() {
	var sent [][]audit.Key // by command
	for range 1 + p.rng.IntN(maxBurst) {
		sent = append(sent, p.command())
	}
	broken := p.conn.Flush() != nil
	for _, keys := range sent {
		var kind int
		var data []byte
		if !broken {
			var err error
			kind, data, err = p.conn.Answer()
			broken = err != nil
		}
		p.settle(keys, kind, data)
	}
	if broken {
		p.conn.Close()
		p.conn = nil
	}
}

// command buffers one PUB, MPUB or DPUB and returns the messages in it.
func (p *producer) command() []audit.Key {
	n, delay := 1, time.Duration(0)
	switch dice := p.rng.IntN(10); {
	case dice < 4:
		n = 2 + p.rng.IntN(maxBatch-1)
	case dice == 4:
		delay = time.Duration(1+p.rng.Int64N(maxDelay.Milliseconds())) * time.Millisecond
	}
	keys, bodies := make([]audit.Key, n), make([][]byte, n)
	for i := range keys {
		keys[i] = audit.Key{Producer: p.name, Seq: p.next}
		bodies[i] = wire.MakeBody(p.rng, p.l.o.seed, keys[i])
		p.next++
	}
	p.l.tell(func(a *audit.Audit, now time.Duration) {
		notBefore := time.Duration(0)
		if delay > 0 {
			notBefore = now + delay
		}
		for i, k := range keys {
			a.Publish(k, wire.Sum(bodies[i]), notBefore)
		}
	})
	if n > 1 {
		p.conn.MPub(topic, bodies)
	} else {
		p.conn.Pub(topic, delay, bodies[0])
	}
	return keys
}

// settle tells what was answered to a command; no data: nothing was.
func (p *producer) settle(keys []audit.Key, kind int, data []byte) {
	outcome := outcomeOf(kind, data)
	p.l.tell(func(a *audit.Audit, now time.Duration) {
		if outcome == audit.Acknowledged {
			p.l.acknowledged(now)
		}
		if kind == wire.FrameError {
			p.l.refuse(now, data)
		}
		if wrong(data) {
			a.Complain(now, fmt.Sprintf("to a right publish: %s", data))
		}
		for _, k := range keys {
			a.Settle(now, k, outcome)
		}
	})
}

// outcomeOf is what an answer means for the message: an error says that nothing is
// stored, unless it says that this is not known.
func outcomeOf(kind int, data []byte) audit.Outcome {
	switch {
	case kind == wire.FrameResponse && string(data) == "OK":
		return audit.Acknowledged
	case kind == wire.FrameError && !bytes.Contains(data, []byte(", outcome unknown: ")):
		return audit.Rejected
	}
	return audit.Open
}

// wrong tells whether the broker calls wrong what was right.
func wrong(data []byte) bool {
	return strings.HasPrefix(string(data), "E_BAD_") || strings.HasPrefix(string(data), "E_INVALID")
}

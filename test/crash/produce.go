package main

import (
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
	maxBatch = 20 // messages in an MPUB
	maxDelay = 1500 * time.Millisecond
)

// producer is one publisher through all its connections.
type producer struct {
	w    *world
	rng  *rand.Rand
	name int
	next int // number of the next message
	conn *wire.Client
}

// produce publishes until ctx ends.
func (w *world) produce(ctx context.Context, name int) {
	p := &producer{w: w, name: name, rng: rand.New(rand.NewPCG(w.o.seed, uint64(1+name)))}
	pace := time.Duration(int64(time.Second) * int64(w.o.producers) / int64(w.o.rate)) // for a message
	forget := time.Now()
	for ctx.Err() == nil {
		if p.conn == nil && !p.connect(ctx) {
			continue
		}
		before := p.next
		if w.owed() < maxOpen {
			p.burst()
		}
		pause(ctx, time.Duration(max(1, p.next-before))*pace)
		if name == 0 && time.Since(forget) > forgetEvery {
			forget = time.Now()
			w.tell(func(a *audit.Audit, now time.Duration) { a.Forget(now) })
		}
	}
	if p.conn != nil {
		p.conn.Close()
	}
}

func (p *producer) connect(ctx context.Context) bool {
	c, err := wire.Dial(p.w.address, clientOptions(fmt.Sprintf("producer-%d", p.name)))
	if err != nil {
		pause(ctx, reconnectPause)
		return false
	}
	p.conn = c
	return true
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
			broken = err != nil || kind != wire.FrameResponse
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
	keys := make([]audit.Key, n)
	bodies := make([][]byte, n)
	for i := range keys {
		keys[i] = audit.Key{Producer: p.name, Seq: p.next}
		bodies[i] = wire.MakeBody(p.rng, p.w.o.seed, keys[i])
		p.next++
	}
	p.w.tell(func(a *audit.Audit, now time.Duration) {
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
	p.w.tell(func(a *audit.Audit, now time.Duration) {
		for _, k := range keys {
			switch {
			case kind == wire.FrameResponse && string(data) == "OK":
				a.Settle(now, k, audit.Acknowledged)
			case kind == wire.FrameError && (strings.HasPrefix(string(data), "E_BAD_") || strings.HasPrefix(string(data), "E_INVALID")):
				a.Settle(now, k, audit.Rejected)
				a.Complain(now, fmt.Sprintf("to a right publish: %s", data))
			default:
				a.Settle(now, k, audit.Open)
			}
		}
	})
}

// pause waits for d or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

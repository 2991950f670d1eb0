package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brokerd/brokerd/test/audit"
	"github.com/brokerd/brokerd/test/traffic"
	"github.com/brokerd/brokerd/test/wire"
)

const maxBatch = 20 // messages in an MPUB

// produce publishes until ctx ends.
func (w *world) produce(ctx context.Context, name int) {
	p := &traffic.Producer{Book: w.Book, RNG: rand.New(rand.NewPCG(w.o.seed, uint64(1+name))), Name: name, MaxBatch: maxBatch}
	pace := time.Duration(int64(time.Second) * int64(w.o.producers) / int64(w.o.rate)) // for a message
	forget := time.Now()
	for ctx.Err() == nil {
		if p.Conn == nil && !w.connect(ctx, p) {
			continue
		}
		before := p.Next
		if w.Stats().Owed < maxOpen {
			p.Burst()
		}
		traffic.Pause(ctx, time.Duration(max(1, p.Next-before))*pace)
		if name == 0 && time.Since(forget) > forgetEvery {
			forget = time.Now()
			w.Tell(func(a *audit.Audit, now time.Duration) { a.Forget(now) })
		}
	}
	if p.Conn != nil {
		p.Conn.Close()
	}
}

func (w *world) connect(ctx context.Context, p *traffic.Producer) bool {
	c, err := wire.Dial(w.address, clientOptions(fmt.Sprintf("producer-%d", p.Name)))
	if err != nil {
		traffic.Pause(ctx, reconnectPause)
		return false
	}
	p.Conn = c
	return true
}

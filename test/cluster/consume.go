package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brokerd/brokerd/test/traffic"
	"github.com/brokerd/brokerd/test/wire"
)

// userAgent is how these clients identify themselves.
const userAgent = "brokerd-test/1"

// How long a consumer keeps a connection.
const (
	minLife      = time.Second
	maxLife      = 6 * time.Second
	shortestLife = 300 * time.Millisecond // of the load
)

// consume receives messages until ctx ends, on one connection after another.
func (l *load) consume(ctx context.Context, name int) {
	rng := rand.New(rand.NewPCG(l.Seed, uint64(1000+name)))
	d := dialer{nodes: l.nodes, next: name, o: wire.Options{
		ID: fmt.Sprintf("consumer-%d", name), UserAgent: userAgent, MsgTimeout: msgTimeout, Timeout: patience,
	}}
	for ctx.Err() == nil {
		round := l.round.Load()
		conn := d.dial(ctx)
		if conn == nil {
			continue
		}
		c := &traffic.Consumer{
			Book: l.Book, RNG: rng, Conn: conn, MinLife: shortestLife, MaxLife: maxLife, Moving: round == 0, Taken: func() { l.taken[name].Add(1) },
		}
		channel := name % len(channels)
		if !c.Subscribe(channel, channels[channel], int(round), func() bool { return l.round.Load() == round }) {
			traffic.Pause(ctx, reconnectPause)
			continue
		}
		l.where[name].Store(d.at())
		c.Live(ctx)
		l.where[name].Store(nil)
	}
}

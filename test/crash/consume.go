package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brokerd/brokerd/test/traffic"
	"github.com/brokerd/brokerd/test/wire"
)

// For how long a consumer keeps a connection.
const (
	minLife = 300 * time.Millisecond
	maxLife = 4 * time.Second
)

// consume receives messages until ctx ends, on one connection after another. subscribed is called
// when the first one has subscribed.
func (w *world) consume(ctx context.Context, name int, subscribed func()) {
	rng := rand.New(rand.NewPCG(w.o.seed, uint64(1000+name)))
	for ctx.Err() == nil {
		c := w.subscribe(rng, name)
		if c == nil {
			traffic.Pause(ctx, reconnectPause)
			continue
		}
		subscribed()
		c.Live(ctx)
	}
}

// subscribe opens a connection that is reported to the audit. It returns nil if there is no
// broker, or if its process cannot be identified.
func (w *world) subscribe(rng *rand.Rand, name int) *traffic.Consumer {
	round := w.round.Load()
	conn, err := wire.Dial(w.address, clientOptions(fmt.Sprintf("consumer-%d", name)))
	if err != nil {
		return nil
	}
	c := &traffic.Consumer{Book: w.Book, RNG: rng, Conn: conn, MinLife: minLife, MaxLife: maxLife}
	channel := name % len(channels)
	if !c.Subscribe(channel, channels[channel], int(round), func() bool { return w.round.Load() == round }) {
		return nil
	}
	return c
}

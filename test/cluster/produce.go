package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brokerd/brokerd/test/traffic"
	"github.com/brokerd/brokerd/test/wire"
)

const (
	maxBatch = 10                     // messages in an MPUB
	homing   = 250 * time.Millisecond // between two attempts to go back to the first node
)

// producer is a publisher that goes from node to node.
type producer struct {
	traffic.Producer
	l    *load
	d    dialer
	home time.Time // when it tries next to go back to its first node
}

// produce publishes until ctx ends.
func (l *load) produce(ctx context.Context, name int) {
	p := &producer{l: l, Producer: traffic.Producer{
		Book: l.Book, RNG: rand.New(rand.NewPCG(l.o.seed, uint64(1+name))), Name: name, MaxBatch: maxBatch, Answered: l.answered,
	}}
	p.d = dialer{nodes: l.nodes, next: name, o: wire.Options{ID: fmt.Sprintf("producer-%d", name), UserAgent: userAgent, Timeout: patience}}
	pace := time.Duration(int64(time.Second) * int64(l.o.producers) / int64(l.o.rate)) // for a message
	for ctx.Err() == nil {
		if p.Conn == nil {
			p.Conn = p.d.dial(ctx)
			continue
		}
		p.goHome(ctx)
		before := p.Next
		if l.Stats().Owed < maxOpen {
			p.Burst()
		}
		traffic.Pause(ctx, time.Duration(max(1, p.Next-before))*pace)
	}
	if p.Conn != nil {
		p.Conn.Close()
	}
}

// goHome has a producer that went on elsewhere come back to the node that it began
// at, once that is there again. A node prefers the partitions that it leads: if all
// producers stayed with one that was never disturbed, the others' partitions would
// get nothing, and consumers there would wait for ever.
func (p *producer) goHome(ctx context.Context) {
	if p.d.at() == p.l.nodes[p.Name%len(p.l.nodes)] || time.Now().Before(p.home) {
		return
	}
	began, d := time.Now(), p.d
	d.next = p.Name
	if conn := d.dial(ctx); conn != nil {
		p.Conn.Close()
		p.Conn, p.d = conn, d
	}
	p.home = time.Now().Add(homing + 4*time.Since(began)) // one that hangs is asked seldom
}

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brokerd/brokerd/test/traffic"
	"github.com/brokerd/brokerd/test/wire"
)

// homing is the time between two attempts to return to the first node.
const homing = 250 * time.Millisecond

// producer is a publisher that moves between nodes.
type producer struct {
	traffic.Producer
	l    *load
	d    dialer
	home time.Time // when it next tries to return to its first node
}

// produce publishes until ctx ends.
func (l *load) produce(ctx context.Context, name int) {
	p := &producer{l: l, Producer: traffic.Producer{
		Book: l.Book, RNG: rand.New(rand.NewPCG(l.Seed, uint64(1+name))), Name: name, Answered: l.answered,
	}}
	p.d = dialer{nodes: l.nodes, next: name, o: wire.Options{ID: fmt.Sprintf("producer-%d", name), UserAgent: userAgent, Timeout: patience}}
	pace := time.Second * producers / rate // the time for one message
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

// goHome returns a producer that went to another node to its first node, once that node is up
// again. A node prefers the partitions that it leads: if all producers stayed with a node that was
// never disturbed, the other nodes' partitions would get nothing, and consumers there would wait
// forever.
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
	p.home = time.Now().Add(homing + 4*time.Since(began)) // a node that hangs is asked less often
}

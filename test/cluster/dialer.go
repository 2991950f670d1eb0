package main

import (
	"context"
	"iter"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/traffic"
	"github.com/brokerd/brokerd/test/wire"
)

// dialer connects to one node after the other: first to the node that it is given, and with each
// further call to the next one.
type dialer struct {
	nodes []*nodes.Node
	next  int
	o     wire.Options
}

// at returns the node of the last connection.
func (d *dialer) at() *nodes.Node { return d.nodes[(d.next-1)%len(d.nodes)] }

// dial connects. If that fails, it waits a moment and returns nil.
func (d *dialer) dial(ctx context.Context) *wire.Client {
	n := d.nodes[d.next%len(d.nodes)]
	d.next++
	c, err := wire.Dial(n.TCP, d.o)
	if err != nil {
		traffic.Pause(ctx, reconnectPause)
		return nil
	}
	return c
}

// connections returns one connection after another until ctx ends, which also ends the connection
// in use.
func (d *dialer) connections(ctx context.Context) iter.Seq[*wire.Client] {
	return func(yield func(*wire.Client) bool) {
		for ctx.Err() == nil {
			conn := d.dial(ctx)
			if conn == nil {
				continue
			}
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			more := yield(conn)
			stop()
			conn.Close()
			if !more {
				return
			}
		}
	}
}

// subscribe subscribes a connection to a channel, of one partition if that is given, and reports
// whether it has. If not, it waits a moment.
func subscribe(ctx context.Context, conn *wire.Client, ready int, channel ...string) bool {
	sub := append([]string{"SUB"}, channel...)
	if conn.Command(sub...) == nil && conn.Expect("OK") == nil && conn.Ready(ready) == nil {
		return true
	}
	traffic.Pause(ctx, reconnectPause)
	return false
}

// publish publishes one message at a time until ctx ends. next returns the body of a message, and
// what is called with the answer, or with zeros if there is none.
func (d *dialer) publish(ctx context.Context, topic string, pace time.Duration, next func(seq int) (body []byte, answered func(kind int, data []byte))) {
	var conn *wire.Client
	for seq := 0; ctx.Err() == nil; traffic.Pause(ctx, pace) {
		if conn == nil {
			conn = d.dial(ctx)
			continue
		}
		body, answered := next(seq)
		seq++
		conn.Pub(topic, 0, body)
		kind, data, err := conn.Exchange()
		answered(kind, data)
		if err != nil {
			conn.Close()
			conn = nil
		}
	}
	if conn != nil {
		conn.Close()
	}
}

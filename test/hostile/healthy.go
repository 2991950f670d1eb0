package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/brokerd/brokerd/test/wire"
)

// times are latencies of responses.
type times []time.Duration

// p99 returns the 99th percentile.
func (t times) p99() time.Duration {
	if len(t) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t))
	return sorted[len(sorted)*99/100].Round(10 * time.Microsecond)
}

// publishPause is the delay between two publishes of the well-behaved client.
const publishPause = 4 * time.Millisecond

// behave is a client that behaves: it connects, publishes small messages one after the
// other, and waits for each answer. At a broker with access control, a second one
// connects for each message.
func behave(ctx context.Context, v *victim, length time.Duration) (times, error) {
	c, err := wire.Dial(v.node.TCP, wire.Options{ID: "healthy", Timeout: patience, Token: v.node.Token})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ended := visits(ctx, v)
	var took times
	tick := time.NewTicker(publishPause)
	defer tick.Stop()
	for end := time.Now().Add(length); time.Now().Before(end) && ctx.Err() == nil; <-tick.C {
		began := time.Now()
		c.Pub("healthy", 0, make([]byte, 200))
		if err := c.Expect("OK"); err != nil {
			return took, fmt.Errorf("the well-behaved client cannot publish: %w", err)
		}
		took = append(took, time.Since(began))
	}
	return took, errors.Join(ended(), ctx.Err())
}

// answer reads the next frame that is no heartbeat.
func answer(conn io.Reader) (string, error) {
	for {
		var head [8]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return "", err
		}
		data := make([]byte, binary.BigEndian.Uint32(head[:])-4)
		if _, err := io.ReadFull(conn, data); err != nil {
			return "", err
		}
		if string(data) != "_heartbeat_" {
			return string(data), nil
		}
	}
}

const magic = "  V2"

// sized puts a body's size before it.
func sized(body string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
}

// mpub returns an MPUB of n messages of a size.
func mpub(topic string, count, size int) string {
	body := binary.BigEndian.AppendUint32(nil, uint32(count))
	for range count {
		body = append(binary.BigEndian.AppendUint32(body, uint32(size)), make([]byte, size)...)
	}
	return "MPUB " + topic + "\n" + sized(string(body))
}

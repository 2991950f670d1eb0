package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// cutConn is a connection whose other end may get a number of bytes; then it breaks.
type cutConn struct {
	net.Conn
	left int
	cut  *atomic.Bool
}

// Write implements net.Conn.
func (c *cutConn) Write(p []byte) (int, error) {
	if len(p) <= c.left {
		c.left -= len(p)
		return c.Conn.Write(p)
	}
	c.cut.Store(true)
	n, _ := c.Conn.Write(p[:c.left])
	_ = c.Close()
	return n, errors.New("connection cut")
}

// smallBroker executes the commands of the client completely, or not at all.
type smallBroker struct {
	t       *testing.T
	serving sync.Mutex // held by one connection after the other; guards the fields below

	stored   []string // bodies, in the order of their PUBs
	messages []string // to be consumed; "" once finished
}

func (b *smallBroker) serve(nc net.Conn) {
	p := peer{b.t, nc, bufio.NewReader(nc)}
	if _, err := p.in.Discard(len("  V2")); err != nil {
		return
	}
	for {
		words := strings.Fields(p.line())
		if len(words) == 0 {
			return // the connection has ended
		}
		switch words[0] {
		case "IDENTIFY":
			p.body()
			p.send(0, `{"max_rdy_count":2500,"msg_timeout":60000}`)
		case "PUB":
			body := p.body()
			if body == "" {
				return
			}
			b.stored = append(b.stored, body)
			p.ok()
		case "SUB":
			p.ok()
		case "RDY":
			for i, m := range b.messages {
				if words[1] != "0" && m != "" {
					p.message(fmt.Sprintf("%016d", i), m)
				}
			}
		case "FIN":
			for i := range b.messages {
				if words[1] == fmt.Sprintf("%016d", i) {
					b.messages[i] = ""
				}
			}
		case "CLS":
			p.send(0, "CLOSE_WAIT")
		}
	}
}

// network connects to the broker. Of the first connection, the data in one direction is cut after n bytes.
func (b *smallBroker) network(n int, toBroker bool) (dial Dialer, cut *atomic.Bool) {
	cut = new(atomic.Bool)
	var dials atomic.Int64
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		switch first := dials.Add(1) == 1; {
		case first && toBroker:
			near = &cutConn{near, n, cut}
		case first:
			far = &cutConn{far, n, cut}
		}
		go func() {
			b.serving.Lock()
			defer b.serving.Unlock()
			defer func() { _ = far.Close() }()
			b.serve(far)
		}()
		return near, nil
	}, cut
}

// cutEverywhere runs a test once for each byte of a connection, in both directions, at which it can be cut.
func cutEverywhere(t *testing.T, test func(t *testing.T, n int, toBroker bool) (cut bool)) {
	for _, toBroker := range []bool{true, false} {
		for n, more := 0, true; more; n++ {
			synctest.Test(t, func(t *testing.T) { more = test(t, n, toBroker) })
		}
	}
}

// Wherever a connection is cut: what was refused is not stored, what was answered is stored once, and every
// publish has an outcome.
func TestConnectionIsCutAtEachByteOfPublishes(t *testing.T) {
	bodies := []string{"1", "22", "333"}
	cutEverywhere(t, func(t *testing.T, n int, toBroker bool) bool {
		b := &smallBroker{t: t}
		dial, cut := b.network(n, toBroker)
		c := newFakeNet(t, nil).client([]string{node}, WithDialer(dial))
		outcomes := make([]error, len(bodies))
		var publishing sync.WaitGroup
		for i, body := range bodies {
			publishing.Go(func() { outcomes[i] = c.Publish(t.Context(), "t", []byte(body)) })
		}
		publishing.Wait()
		closeSoon(t, c)
		b.serving.Lock()
		defer b.serving.Unlock()
		for i, body := range bodies {
			err := outcomes[i]
			count := len(slices.DeleteFunc(slices.Clone(b.stored), func(s string) bool { return s != body }))
			if count > 1 || err == nil && count == 0 || errors.Is(err, ErrRefused) && count > 0 || err != nil && !errors.Is(err, ErrUncertain) {
				t.Errorf("cut after %d bytes (to the broker: %v): %s is stored %d times: %v", n, toBroker, body, count, err)
			}
		}
		return cut.Load()
	})
}

// Wherever a connection is cut: every message is handled and finished, and Close ends.
func TestConnectionIsCutAtEachByteOfConsuming(t *testing.T) {
	cutEverywhere(t, func(t *testing.T, n int, toBroker bool) bool {
		b := &smallBroker{t: t, messages: []string{"1", "22", "333"}}
		dial, cut := b.network(n, toBroker)
		c := newFakeNet(t, nil).client([]string{node}, WithDialer(dial))
		x, err := c.Subscribe("t", "c", WithConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		ctx, enough := context.WithTimeout(t.Context(), time.Hour)
		defer enough()
		handled := map[string]bool{}
		err = x.Run(ctx, func(_ context.Context, m *Message) error {
			if handled[string(m.Body)] = true; len(handled) == 3 {
				time.AfterFunc(time.Minute, enough) // after further deliveries
			}
			return nil
		})
		closeSoon(t, c)
		b.serving.Lock()
		defer b.serving.Unlock()
		if err != nil || len(handled) != 3 || strings.Join(b.messages, "") != "" {
			t.Errorf("cut after %d bytes (to the broker: %v): handled %v, not finished %q, %v", n, toBroker, handled, b.messages, err)
		}
		return cut.Load()
	})
}

// closeSoon closes a client that has nothing in progress.
func closeSoon(t *testing.T, c *Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	synctest.Wait() // the broker's ends
}

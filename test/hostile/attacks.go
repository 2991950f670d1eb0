package main

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/test/wire"
)

const (
	quietly  = "IDENTIFY\n\x00\x00\x00\x1b{\"heartbeat_interval\":-1} \n"
	deflated = `{"feature_negotiation":true,"deflate":true,"heartbeat_interval":-1}`
	snappily = `{"feature_negotiation":true,"snappy":true,"heartbeat_interval":-1}`
	mega     = 1 << 20
	largest  = 5 << 20         // largest body accepted by default
	pause    = 2 * time.Second // delay before a client whose connection ended reconnects
)

// attack is a kind of hostile client.
type attack struct {
	name    string
	crowd   int // connections, or requests at a time
	prepare func(context.Context, *victim) error
	tidy    func(context.Context, *victim) error // afterwards; nil: nothing stays
	// each is one of the crowd. It is called again when it returns, after a pause, and
	// ends when an error of its connection ends it.
	each func(*foe) error
}

// tooLarge is a body that is refused, and whose rest the broker would read.
var tooLarge = make([]byte, 3*largest)

var attacks = []attack{
	{name: "deflate", crowd: 100, each: deflate(mpub("zeros", 4, mega))},
	{name: "peeks", crowd: 12, prepare: large, each: func(f *foe) error { return f.ask(http.MethodGet, "/v1/topics/large/messages?n=1000", nil) }},
	{name: "client-id", crowd: 200, each: raw("IDENTIFY\n" + sized(`{"client_id":"`+strings.Repeat("x", largest-20)+`"}`))},
	{name: "small-messages", crowd: 8, each: raw(mpub("small", (largest-4)/5, 1))},
	{name: "missing-byte", crowd: 200, each: unfinished(quietly + mpub("missing", 4, mega))},
	{name: "http-missing-byte", crowd: 100, each: slowPost},
	{name: "json", crowd: 8, each: func(f *foe) error {
		return f.ask(http.MethodPost, "/v1/topics/json/messages", []byte(`{"messages":[`+strings.Repeat(`{"text":"x"},`, largest/13)+`{"text":"x"}]}`))
	}},
	{name: "lines", crowd: 8, each: func(f *foe) error {
		return f.ask(http.MethodPost, "/mpub?topic=lines", bytes.Repeat([]byte("x\n"), largest/2))
	}},
	{name: "http-too-large", crowd: 50, each: func(f *foe) error { return f.ask(http.MethodPost, "/pub?topic=large", tooLarge) }},
	{name: "deaf-consumers", crowd: 100, prepare: large, each: deaf},
	{name: "connections", crowd: 2000, each: unfinished(quietly + "?")},
	{name: "long-lines", crowd: 500, each: unfinished(strings.Repeat("x", 16<<10-1) + "?")},
	{name: "stats", crowd: 16, each: func(f *foe) error { return f.ask(http.MethodGet, "/stats?format=json", nil) }},
	{name: "snappy", crowd: 500, each: unfinished("IDENTIFY\n" + sized(snappily) + "?")},
	{name: "ephemeral", crowd: 4, prepare: waste("create"), tidy: waste("delete"), each: raw("PUB waste#ephemeral\n" + sized(string(make([]byte, mega))))},
	{name: "deaf-publishers", crowd: 16, each: pipelined},
	{name: "reads", crowd: 26, prepare: many, tidy: fewer, each: reads},
	{name: "partitions", crowd: 8, tidy: narrow, each: partitions},
	{name: "creations", crowd: 8, each: creates},
	{name: "garbage", crowd: 50, each: raw(strings.Repeat("\xff\x00PUB \n\n\n", 1<<10))},
}

// foe is one of a crowd, with a connection of its own.
type foe struct {
	ctx    context.Context
	at     target
	number int
	net.Conn
}

// fight attacks until ctx ends.
func (a attack) fight(ctx context.Context, at target) {
	var running sync.WaitGroup
	for i := range a.crowd {
		running.Go(func() {
			for ctx.Err() == nil {
				// The outcome for the attacker does not matter: what is checked is whether other
				// clients continue.
				_ = once(ctx, at, i, a.each)
				select {
				case <-time.After(pause):
				case <-ctx.Done():
				}
			}
		})
	}
	running.Wait()
}

// once lets one of the crowd act once.
func once(ctx context.Context, at target, number int, each func(*foe) error) error {
	return connected(ctx, at.TCP, func(conn net.Conn) error {
		return each(&foe{ctx: ctx, at: at, number: number, Conn: conn})
	})
}

// connected does something with a connection, which ends with ctx.
func connected(ctx context.Context, address string, do func(net.Conn) error) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	return do(conn)
}

// hold waits until the broker, or the end of the attack, ends the connection.
func (f *foe) hold() error {
	_, err := io.Copy(io.Discard, f.Conn)
	return err
}

func (f *foe) send(text string) error {
	_, err := io.WriteString(f.Conn, text)
	return err
}

// raw sends a command and reads an answer, repeatedly.
func raw(text string) func(*foe) error {
	command := []byte(text) // shared by all clients, to save computation
	return func(f *foe) error {
		for err := f.send(magic); err == nil; {
			if _, err = f.Write(command); err == nil {
				_, err = answer(f.Conn)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// unfinished sends all but the last byte of a text.
func unfinished(text string) func(*foe) error {
	most := []byte(magic + text[:len(text)-1])
	return func(f *foe) error {
		_, err := f.Write(most)
		return errors.Join(err, f.hold())
	}
}

// pipelined publishes and never reads an answer.
func pipelined(f *foe) error {
	batch := strings.Repeat("PUB deaf\n"+sized(string(make([]byte, 100))), 1000)
	err := f.send(magic + quietly)
	for err == nil {
		err = f.send(batch)
	}
	return err
}

// deaf subscribes to large messages and never reads one.
func deaf(f *foe) error {
	err := f.send(fmt.Sprintf("%sSUB large c%d\nRDY 2500\n", magic, f.number%10))
	<-f.ctx.Done()
	return err
}

// deflate sends a body of zeros that lacks its last byte: a few KiB for five MiB.
func deflate(text string) func(*foe) error {
	var small bytes.Buffer
	w, err := flate.NewWriter(&small, flate.BestCompression)
	if err == nil {
		_, err = io.WriteString(w, text[:len(text)-1])
	}
	if err == nil {
		err = w.Flush()
	}
	return func(f *foe) error {
		if err := errors.Join(err, f.send(magic+"IDENTIFY\n"+sized(deflated))); err != nil {
			return err
		}
		if _, err := answer(f.Conn); err != nil {
			return err
		}
		_, err := f.Write(small.Bytes())
		return errors.Join(err, f.hold())
	}
}

// ask sends a request over HTTP.
func (f *foe) ask(method, path string, body []byte) error {
	r, err := http.NewRequestWithContext(f.ctx, method, "http://"+f.at.HTTP+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}

// slowPost sends a body over HTTP that lacks its last byte.
func slowPost(f *foe) error {
	head := fmt.Sprintf("POST /mpub?topic=slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", largest)
	return connected(f.ctx, f.at.HTTP, func(conn net.Conn) error {
		if _, err := conn.Write(append([]byte(head), make([]byte, largest-1)...)); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, conn)
		return err
	})
}

// waste does something to the ephemeral topic. The topic is created before the attack, so that it exists and can be
// deleted, however slow the attack is. Until it is deleted its last messages are kept.
func waste(do string) func(context.Context, *victim) error {
	return func(ctx context.Context, v *victim) error {
		_, err := v.node.Fetch(ctx, http.MethodPost, "/topic/"+do+"?topic=waste%23ephemeral", nil)
		return err
	}
}

// large fills a topic with large messages, for clients that read them.
func large(ctx context.Context, v *victim) error {
	return steps.Run(func() {
		steps.Need(v.node.Fetch(ctx, http.MethodPost, "/topic/create?topic=large", nil))
		for i := range 10 {
			steps.Need(v.node.Fetch(ctx, http.MethodPost, fmt.Sprintf("/channel/create?topic=large&channel=c%d", i), nil))
		}
		c := steps.Need(wire.Dial(v.node.TCP, wire.Options{ID: "large", Timeout: patience}))
		defer c.Close()
		for range 16 {
			c.MPub("large", slices.Repeat([][]byte{make([]byte, mega)}, 4))
			steps.Must(c.Expect("OK"))
		}
	})
}

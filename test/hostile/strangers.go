package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/brokerd/brokerd/test/nodes"
	"github.com/brokerd/brokerd/test/steps"
	"github.com/brokerd/brokerd/test/wire"
)

// fewConnections is how many clients may be connected to a broker with access control: fewer than attack it.
const fewConnections = "200"

// guarded are attacks on a broker with access control, by clients without credentials. The well-behaved client has a
// token.
var guarded = []attack{
	{name: "silent", crowd: 400, each: unfinished("?")},
	{name: "half-magic", crowd: 400, each: func(f *foe) error { return errors.Join(f.send(magic[:2]), f.hold()) }},
	{name: "no-auth", crowd: 400, each: unfinished(quietly + "?")},
	{name: "no-auth-nop", crowd: 400, each: nops},
	{name: "half-auth", crowd: 400, each: unfinished(quietly + "AUTH\n" + sized(string(make([]byte, 4000))))},
	{name: "no-auth-http", crowd: 400, each: kept401},
}

// nops keeps a connection busy without AUTH.
func nops(f *foe) error {
	err := f.send(magic)
	for err == nil && f.ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		err = f.send("NOP\n")
	}
	return err
}

// kept401 keeps a connection over HTTP on which no request is allowed.
func kept401(f *foe) error {
	return errors.Join(f.ask(http.MethodGet, "/v1/topics", nil), unfinished("GET / HTTP/1.1\r\n?")(f))
}

// runGuarded makes attacks on a broker with access control.
func runGuarded(ctx context.Context, o options, all []attack) error {
	if len(all) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "hostile-secret-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	secret := filepath.Join(dir, "cluster") // access control needs a cluster address that is not open to every process
	if err := os.WriteFile(secret, []byte(rand.Text()+"\n"), 0o600); err != nil {
		return err
	}
	v, err := startVictim(ctx, o, "--max-connections", fewConnections, "--cluster-secret-file", secret)
	if err != nil {
		return err
	}
	defer v.end()
	if err := v.guard(ctx); err != nil {
		return fmt.Errorf("enabling access control: %w", err)
	}
	return runAgainst(ctx, v, o, all)
}

// guard enables access control, and gives the well-behaved client its token.
func (v *victim) guard(ctx context.Context) error {
	return steps.Run(func() {
		first := ""
		steps.Must(nodes.Await(ctx, func() error {
			text, err := os.ReadFile(filepath.Join(v.node.Data(), "first-administrator"))
			first = string(text)
			return err
		}))
		ask := func(path string, in any) (answer struct{ Secret string }) {
			steps.Must(v.node.Ask(ctx, http.MethodPost, path, in, &answer))
			return answer
		}
		v.node.Token = strings.TrimSpace(first)
		ask("/v1/access/users", map[string]any{"name": "ops", "rules": []map[string]string{{"right": "admin"}}})
		v.node.Token = ask("/v1/access/users/ops/tokens", map[string]any{"description": "hostile"}).Secret
		steps.Must(v.node.Ask(ctx, http.MethodPost, "/v1/access/enable", nil, nil))
	})
}

// visits are publishes, at a broker with access control, through a connection each, one after the other, until the function that it returns is called,
// which returns the first error. Each may take visitTime.
func visits(ctx context.Context, v *victim) (end func() error) {
	if v.node.Token == "" {
		return func() error { return nil }
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			if err = visit(v); err != nil {
				err = fmt.Errorf("a client that connects cannot publish: %w", err)
			}
			select {
			case <-time.After(publishPause):
			case <-ctx.Done():
			}
		}
		done <- err
	}()
	return func() error { stop(); return <-done }
}

// visitTime is how long a client may take to connect, authenticate and publish: a burst of others may be before it.
const visitTime = 2 * time.Second

// visit publishes one message through a connection of its own.
func visit(v *victim) error {
	began := time.Now()
	c, err := wire.Dial(v.node.TCP, wire.Options{ID: "visitor", Timeout: patience, Token: v.node.Token})
	if err != nil {
		return err
	}
	defer c.Close()
	c.Pub("healthy", 0, make([]byte, 200))
	if err := c.Expect("OK"); err != nil {
		return err
	}
	if took := time.Since(began); took > visitTime {
		return fmt.Errorf("it took %v", took)
	}
	return nil
}

// Command brokerctl operates a cluster of brokerd.
//
// It sends requests to a node over the /v1 API (pkg/admin/api) and prints the answers as a table,
// JSON, YAML or names. It contains no broker logic: of the broker's packages it imports only the
// one that formats message ids. It consumes messages over the NSQ protocol, like any other
// consumer.
//
// The commands for one object have one file, and large commands a file of their own: an options
// struct with addFlags and validate if it has flags, and a plain function that returns an
// output.View. Only root.go prints.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/brokerd/brokerd/internal/beat"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], environment{
		stdin:  os.Stdin,
		stdout: os.Stdout,
		stderr: os.Stderr,
		getenv: os.Getenv,
		now:    time.Now,
		pause:  func(ctx context.Context, d time.Duration) { beat.Pause(ctx, d) },
		readSecret: func() (string, error) {
			text, err := term.ReadPassword(int(os.Stdin.Fd()))
			return string(text), err
		},
		isTerminal: term.IsTerminal(int(os.Stdin.Fd())),
		isScreen:   term.IsTerminal(int(os.Stdout.Fd())),
	})
	stop()
	os.Exit(code)
}

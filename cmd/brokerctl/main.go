// Command brokerctl operates a cluster of brokerd.
//
// It knows how to ask a node over the /v1 interface of pkg/admin/api, and how
// to show what came back as a table, JSON, YAML or names. It refuses to know how
// a broker works: of its packages it imports only the one that spells message
// ids. Messages are consumed over the NSQ protocol, as any consumer would.
//
// Each command is a file: an options struct with addFlags and validate where it
// has flags, and a plain function that returns a view. Only root.go prints.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], environment{
		stdin:      os.Stdin,
		stdout:     os.Stdout,
		stderr:     os.Stderr,
		getenv:     os.Getenv,
		now:        time.Now,
		pause:      pause,
		isTerminal: term.IsTerminal(int(os.Stdin.Fd())),
		isScreen:   term.IsTerminal(int(os.Stdout.Fd())),
	})
	stop()
	os.Exit(code)
}

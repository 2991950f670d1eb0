// Command brokerd is the broker. Under the names nsqd and nsqlookupd it replaces those programs.
//
// It handles command lines, signals, exit codes, listening sockets, systemd and the data directory
// lock. Topics, messages and protocols are the business of internal/node, which it opens with a
// configuration and listeners.
//
// Invariants:
//   - Components are stopped in the reverse order of their start: lock, sockets, node.
//   - Every exit has an exit code of exit.go and prints its reason to stderr.
//   - A data directory is used by one process at a time.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/brokerd/brokerd/internal/build"
)

// program is the environment of one run, as provided by the system.
type program struct {
	args    []string // the program's name first
	environ []string
	stdout  io.Writer
	stderr  *os.File
	signals <-chan os.Signal // SIGTERM, SIGINT and SIGHUP
	open    openNode
}

func main() {
	makePlaces()
	raiseOpenFiles()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	p := &program{
		args: os.Args, environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr,
		signals: signals, open: openBroker,
	}
	os.Exit(onHeapFloor(func() int { return p.run(context.Background()) }))
}

// run executes the command line and returns the exit code.
func (p *program) run(ctx context.Context) (code int) {
	defer func() {
		if broken := recover(); broken != nil {
			p.say("brokerd: BUG: %v\n%s", broken, debug.Stack())
			code = exitBug
		}
	}()
	name, args := filepath.Base(p.args[0]), p.args[1:]
	if name != nsqdName && name != nsqlookupdName && len(args) > 0 && (args[0] == nsqdName || args[0] == nsqlookupdName) {
		name, args = args[0], args[1:]
	}
	var err error
	switch name {
	case nsqdName:
		err = p.nsqd(ctx, args)
	case nsqlookupdName:
		err = p.nsqlookupd(ctx, args)
	default:
		name = "brokerd"
		err = p.brokerd(ctx, args)
	}
	if err != nil && !isSilent(err) {
		p.say("%s: %v\n", name, err)
	}
	return exitCode(err)
}

// say prints to standard error. If that takes nothing, the process ends nevertheless.
func (p *program) say(format string, args ...any) {
	out := newLogOut(p.stderr)
	fmt.Fprintf(out, format, args...)
	out.flush()
}

// nsqVersion is the nsqd version reported to clients and tools; some of them parse and compare it.
const nsqVersion = "1.3.0"

// version is the version of brokerd.
var version = build.Version()

// versionLine describes the build.
func versionLine() string {
	return fmt.Sprintf("brokerd v%s (%s, NSQ %s compatible, built w/%s)", version, build.This(), nsqVersion, runtime.Version())
}

// standInVersion is the version line of the replaced program, which tools parse.
func standInVersion(name string) string {
	return fmt.Sprintf("%s v%s (built w/%s)", name, nsqVersion, runtime.Version())
}

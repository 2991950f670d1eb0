package raftstore

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"strings"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// bridge hands the consensus library's log lines to slog. What the library
// calls informational is about its own workings, and becomes a debug line.
type bridge struct {
	log  *slog.Logger
	name string
	args []any
}

func newBridge(l *slog.Logger) hclog.Logger { return &bridge{log: l} }

func slogLevel(l hclog.Level) slog.Level {
	switch l {
	case hclog.Warn:
		return slog.LevelWarn
	case hclog.Error:
		return slog.LevelError
	case hclog.NoLevel, hclog.Trace, hclog.Debug, hclog.Info, hclog.Off:
	}
	return slog.LevelDebug
}

func (b *bridge) Log(level hclog.Level, msg string, args ...any) {
	to := slogLevel(level)
	if to > slog.LevelDebug && routine(msg, args) {
		to = slog.LevelDebug
	}
	b.log.Log(context.Background(), to, "raft: "+msg, args...)
}

// routineWarnings returns how the lines begin that the library says again and
// again of a node that is away, and in the ordinary course of an election.
func routineWarnings() []string {
	return []string{
		"Election timeout reached", "appendEntries rejected", "clearing log suffix", "failed to contact", "failed to get previous log", "peer has newer term", "previous log term mis-match",
		"rejecting", "unable to get address",
	}
}

// routine says whether a line is about a connection that broke or could not be
// made, or another everyday matter: whoever runs the node is told of nodes by
// those who judge them.
func routine(msg string, args []any) bool {
	for _, prefix := range routineWarnings() {
		if strings.HasPrefix(msg, prefix) {
			return true
		}
	}
	for _, a := range args {
		if err, ok := a.(error); ok && aboutConnection(err) {
			return true
		}
	}
	return false
}

func aboutConnection(err error) bool {
	for _, known := range []error{
		net.ErrClosed, io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, errStalled, errNotReached,
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, raft.ErrTransportShutdown, raft.ErrPipelineShutdown,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	_, network := errors.AsType[net.Error](err)
	return network
}

func (b *bridge) Trace(string, ...any)          {}
func (b *bridge) Debug(msg string, args ...any) { b.Log(hclog.Debug, msg, args...) }
func (b *bridge) Info(msg string, args ...any)  { b.Log(hclog.Info, msg, args...) }
func (b *bridge) Warn(msg string, args ...any)  { b.Log(hclog.Warn, msg, args...) }
func (b *bridge) Error(msg string, args ...any) { b.Log(hclog.Error, msg, args...) }

func (b *bridge) on(l slog.Level) bool { return b.log.Enabled(context.Background(), l) }

func (b *bridge) IsTrace() bool { return false }
func (b *bridge) IsDebug() bool { return b.on(slog.LevelDebug) }
func (b *bridge) IsInfo() bool  { return b.on(slog.LevelDebug) }
func (b *bridge) IsWarn() bool  { return b.on(slog.LevelWarn) }
func (b *bridge) IsError() bool { return b.on(slog.LevelError) }

func (b *bridge) ImpliedArgs() []any { return b.args }

func (b *bridge) With(args ...any) hclog.Logger {
	return &bridge{log: b.log.With(args...), name: b.name, args: append(b.args[:len(b.args):len(b.args)], args...)}
}

func (b *bridge) Name() string { return b.name }
func (b *bridge) Named(name string) hclog.Logger {
	return &bridge{log: b.log, name: name, args: b.args}
}
func (b *bridge) ResetNamed(name string) hclog.Logger                   { return b.Named(name) }
func (b *bridge) SetLevel(hclog.Level)                                  {}
func (b *bridge) GetLevel() hclog.Level                                 { return hclog.Debug }
func (b *bridge) lines() io.Writer                                      { return lineWriter{b} }
func (b *bridge) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return b.lines() }

func (b *bridge) StandardLogger(*hclog.StandardLoggerOptions) *log.Logger {
	return log.New(b.lines(), "", 0)
}

type lineWriter struct{ b *bridge }

func (w lineWriter) Write(p []byte) (int, error) {
	w.b.Debug(string(p))
	return len(p), nil
}

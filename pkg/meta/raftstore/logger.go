package raftstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// bridge passes the consensus library's log lines to slog. The library's informational lines are
// about its internals, and become debug lines.
type bridge struct {
	log   *slog.Logger
	lines repeats
}

func newBridge(l *slog.Logger) hclog.Logger {
	silent := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off, Output: io.Discard})
	silent.RegisterSink(&bridge{log: l})
	return silent
}

// repeatEvery is the shortest time between two log lines with the same warning or error.
const repeatEvery = time.Minute

// repeats keeps repeated lines of the library from filling the log. The texts are constants of the
// library, so there are few.
type repeats struct {
	mu   sync.Mutex // guards said
	said map[string]*repeated
}

type repeated struct {
	at         time.Time // when it was last logged
	suppressed int       // how often it was suppressed since
}

// turn reports whether a line is to be logged, and how many with its text were suppressed since the
// last one.
func (r *repeats) turn(text string, now time.Time) (suppressed int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.said[text]
	if s != nil && now.Sub(s.at) < repeatEvery {
		s.suppressed++
		return 0, false
	}
	if s == nil {
		s = &repeated{}
		if r.said == nil {
			r.said = map[string]*repeated{}
		}
		r.said[text] = s
	}
	suppressed, s.at, s.suppressed = s.suppressed, now, 0
	return suppressed, true
}

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

// Accept logs a line of the library.
func (b *bridge) Accept(_ string, level hclog.Level, msg string, args ...any) {
	to := slogLevel(level)
	if to > slog.LevelDebug && routine(msg, args) {
		to = slog.LevelDebug
	}
	if to > slog.LevelDebug {
		suppressed, ok := b.lines.turn(msg, time.Now())
		if !ok {
			return
		}
		if suppressed > 0 {
			args = append(args[:len(args):len(args)], "repeated", suppressed)
		}
	}
	if ctx := context.Background(); b.log.Enabled(ctx, to) {
		b.log.Log(ctx, to, "raft: "+msg, formatted(args)...)
	}
}

// formatted replaces arguments that the library leaves its logger to format by their text.
func formatted(args []any) []any {
	args = slices.Clone(args)
	for i, a := range args {
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			args[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	return args
}

// routineWarnings returns the beginnings of lines that the library logs repeatedly about an absent
// node, and during a normal election.
func routineWarnings() []string {
	return []string{
		"Election timeout reached", "appendEntries rejected", "clearing log suffix", "failed to contact", "failed to get previous log", "peer has newer term", "previous log term mis-match",
		"rejecting", "unable to get address",
	}
}

// routine reports whether a line is about an everyday matter, such as a connection that
// broke or could not be made, or an entry that the leader has compacted, instead of
// which a follower gets a snapshot. Other components report nodes that fail. If a
// missing entry is damage, the library panics.
func routine(msg string, args []any) bool {
	for _, prefix := range routineWarnings() {
		if strings.HasPrefix(msg, prefix) {
			return true
		}
	}
	for _, a := range args {
		if err, ok := a.(error); ok && (aboutConnection(err) || errors.Is(err, raft.ErrLogNotFound)) {
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
	if _, network := errors.AsType[net.Error](err); network {
		return true
	}
	// The codec of the library's requests keeps only the text of an error.
	text := err.Error()
	return strings.HasPrefix(text, "msgpack decode error") && slices.ContainsFunc(brokenStreams[:], func(end string) bool { return strings.Contains(text, end) })
}

// brokenStreams are parts of the texts of errors of streams that ended early.
var brokenStreams = [...]string{"EOF", "closed", "connection reset", "connection refused", "broken pipe", "timeout", "deadline", "stalled", "not reached"}

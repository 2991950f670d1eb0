package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// logWaiting is the maximum size of log lines that wait for standard error to take them.
	logWaiting = 1 << 20
	// logAtOnce is the size up to which a pipe that can be written takes a line at once (PIPE_BUF).
	logAtOnce = 4096
	// logFlushTimeout limits how long a process that ends waits for its last lines to be written.
	logFlushTimeout = time.Second
)

// logOut writes log lines, one with each Write, to a file that may stop taking them: a pipe whose
// reader hangs, or the socket of a service manager that hangs. Write does not wait for it. A line that
// the file takes at once is written at once; others wait in memory for a goroutine that writes them in
// order. Lines beyond logWaiting are dropped and counted, and so are all that follow until none waits.
// It is safe for concurrent use.
type logOut struct {
	to    io.Writer
	takes func() bool     // reports whether a short line can be written without waiting
	lost  func(lines int) // logs how many lines were dropped, once lines are taken again

	mu      sync.Mutex // guards what follows
	waiting [][]byte
	size    int // of all that wait, including the line that is being written
	dropped int
	idle    chan struct{} // closed when nothing waits any more; nil: nothing waits
}

// newLogOut returns the log lines' way to a file.
func newLogOut(file *os.File) *logOut {
	fd := int32(file.Fd()) //nolint:gosec // a descriptor is small
	return &logOut{to: file, lost: func(int) {}, takes: func() bool {
		poll := []unix.PollFd{{Fd: fd, Events: unix.POLLOUT}}
		n, err := unix.Poll(poll, 0)
		return n > 0 || err != nil
	}}
}

// reports makes log report dropped lines. It must be called before the first Write.
func (l *logOut) reports(log *slog.Logger) {
	l.lost = func(lines int) {
		log.Warn("log lines dropped: standard error was not read for too long; the node did not wait for it", "lines", lines)
	}
}

// Write implements io.Writer. It never waits.
func (l *logOut) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle == nil && len(line) <= logAtOnce && l.takes() {
		return l.to.Write(line)
	}
	if l.dropped > 0 || l.size+len(line) > logWaiting { // the report stands where all dropped lines are missing
		l.dropped++
		return len(line), nil
	}
	l.waiting = append(l.waiting, bytes.Clone(line))
	l.size += len(line)
	if l.idle == nil {
		l.idle = make(chan struct{})
		go l.drain()
	}
	return len(line), nil
}

// drain writes the lines that wait.
func (l *logOut) drain() {
	for {
		line, dropped := l.next()
		if line == nil {
			if dropped > 0 {
				l.lost(dropped)
			}
			return
		}
		_, _ = l.to.Write(line) // an error cannot be logged: this is the log
		l.mu.Lock()
		l.size -= len(line)
		l.mu.Unlock()
	}
}

// next returns the next line that waits. Without one, it returns how many were dropped.
func (l *logOut) next() (line []byte, dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		dropped, l.dropped = l.dropped, 0
		close(l.idle)
		l.waiting, l.idle = nil, nil
		return nil, dropped
	}
	line, l.waiting[0] = l.waiting[0], nil
	l.waiting = l.waiting[1:]
	return line, 0
}

// flush waits until no line waits, for at most logFlushTimeout.
func (l *logOut) flush() {
	l.mu.Lock()
	idle := l.idle
	l.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-time.After(logFlushTimeout):
	}
}

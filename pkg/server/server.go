package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/buffer"
	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/publish"
	"github.com/brokerd/brokerd/pkg/stats"
)

// ErrClosed is returned by Serve after Shutdown.
var ErrClosed = errors.New("server is shutting down")

// Server serves NSQ clients. Its methods are safe for concurrent use.
type Server struct {
	opts         Options
	limits       nsq.Limits
	broker       Broker
	log          *slog.Logger
	buffers      buffer.Pool
	answers      *sync.Pool
	counters     counters
	complaints   complaint.Book // complaints about clients
	running      sync.WaitGroup // sessions
	abortTimeout time.Duration  // defaultAbortTimeout

	mu        sync.Mutex // guards the following
	closed    bool
	listeners map[net.Listener]struct{}
	sessions  map[*session]struct{}
	waiting   unauthenticated
}

// New returns a Server. It starts nothing. It fails if options contradict each other.
func New(opts Options, b Broker, log *slog.Logger) (*Server, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	return &Server{
		opts: opts, limits: opts.limits(), broker: b, log: log, answers: newAnswers(), abortTimeout: defaultAbortTimeout,
		listeners: make(map[net.Listener]struct{}), sessions: make(map[*session]struct{}),
		waiting: newUnauthenticated(opts.MaxConnections),
	}, nil
}

// Limits of the pause after an Accept that failed temporarily.
const (
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// Serve accepts connections until ctx ends or Shutdown is called, and closes the listener.
// Connections continue until Shutdown. It returns nil if ctx has ended, ErrClosed after Shutdown,
// and otherwise the error of Accept. Serve may be called for several listeners.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if !s.addListener(ln) {
		return errors.Join(ErrClosed, ln.Close())
	}
	unhook := context.AfterFunc(ctx, func() { s.dropListener(ln) })
	defer s.dropListener(ln)
	defer unhook()
	pause := minAcceptPause
	for {
		conn, err := ln.Accept()
		if err == nil {
			pause = minAcceptPause
			s.start(ctx, conn)
			continue
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case s.isClosed():
			return ErrClosed
		case !temporary(err):
			return fmt.Errorf("accept connections: %w", err)
		}
		s.complaints.Warn(s.log, time.Now(), "cannot accept connection; retrying", "error", err, "retry_in", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		pause = min(2*pause, maxAcceptPause)
	}
}

// temporary reports whether accepting may succeed later: there was no file descriptor, or a client
// disconnected at once.
func temporary(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err)
	return ok && t.Temporary()
}

func (s *Server) addListener(ln net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.listeners[ln] = struct{}{}
	return true
}

func (s *Server) dropListener(ln net.Listener) {
	s.mu.Lock()
	_, open := s.listeners[ln]
	delete(s.listeners, ln)
	s.mu.Unlock()
	if !open {
		return
	}
	if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		s.log.Warn("cannot close a client listener; its address may stay in use until the process ends", "error", err)
	}
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// start runs a session for conn, or refuses it.
func (s *Server) start(ctx context.Context, conn net.Conn) {
	s.counters.connections.Add(1)
	// Sessions end in Shutdown, not when accepting ends.
	ctx = publish.WithClient(context.WithoutCancel(ctx), conn.RemoteAddr().String())
	ctx, cancel := context.WithCancelCause(s.opts.Creations.By(ctx, conn.RemoteAddr()))
	c := newSession(ctx, s, conn, cancel)
	s.makeRoom(ctx)
	s.mu.Lock()
	refused := s.closed
	full := s.opts.MaxConnections > 0 && len(s.sessions) >= s.opts.MaxConnections
	poor := !refused && !full && !c.standing.Try(connectionCost)
	if !refused && !full && !poor {
		s.sessions[c] = struct{}{}
		s.running.Add(1)
	}
	s.mu.Unlock()
	if !refused && !full && !poor {
		s.counters.open.Add(1)
		if s.demandsAuth() {
			s.awaitAuth(c)
		}
		go func() {
			defer s.running.Done()
			c.run(ctx)
			s.forget(c)
		}()
		return
	}
	cancel(ErrClosed)
	if full {
		s.counters.ended[EndLimit].Add(1)
		s.complaints.Warn(s.log, time.Now(), "connection refused: connection limit reached", "remote", conn.RemoteAddr(), "limit", s.opts.MaxConnections)
		refuse(conn, "too many connections")
	}
	if poor {
		s.counters.ended[EndLimit].Add(1)
		s.complaints.Warn(s.log, time.Now(), "connection refused: client memory budget exhausted", "remote", conn.RemoteAddr())
		refuse(conn, c.standing.Refuse().Error())
	}
	// The client has got everything that it can get: an error has no consequence.
	_ = conn.Close()
}

// refuseTimeout limits the time for telling a client that the connection limit is reached. The
// frame fits into any socket's buffer, so that accepting does not wait.
const refuseTimeout = 10 * time.Millisecond

func refuse(conn net.Conn, why string) {
	if conn.SetWriteDeadline(time.Now().Add(refuseTimeout)) != nil {
		return
	}
	_, _ = conn.Write(nsq.AppendFrame(nil, nsq.FrameError, nsq.Errorf(failure.BadCommand, "%s", why).Error()))
}

func (s *Server) forget(c *session) {
	s.counters.open.Add(-1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked(c)
	delete(s.sessions, c)
}

func (s *Server) openSessions() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*session, 0, len(s.sessions))
	for c := range s.sessions {
		all = append(all, c)
	}
	return all
}

// defaultAbortTimeout limits how long Shutdown waits for connections that it has aborted.
const defaultAbortTimeout = 5 * time.Second

// Shutdown stops accepting, executes the commands that clients have sent, writes the answers that
// they are owed, returns messages that are in flight, and closes the connections. If ctx ends
// first, it closes the remaining connections at once and returns ctx's cause. It returns when
// everything has stopped, or defaultAbortTimeout after ctx ended.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	open := make([]net.Listener, 0, len(s.listeners))
	for ln := range s.listeners {
		open = append(open, ln)
	}
	s.mu.Unlock()
	for _, ln := range open {
		s.dropListener(ln)
	}
	for _, c := range s.openSessions() {
		retire(c.link, EndShutdown, failure.ShuttingDown)
	}
	still := make(chan struct{})
	go func() {
		s.running.Wait()
		close(still)
	}()
	select {
	case <-still:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.openSessions() {
		c.abort(EndShutdown, context.Cause(ctx))
	}
	select {
	case <-still:
	case <-time.After(s.abortTimeout):
		// A reader may append and sync itself: a disk that hangs blocks it.
		return fmt.Errorf("%d connections did not close, probably waiting for the disk: %w", len(s.openSessions()), context.Cause(ctx))
	}
	return context.Cause(ctx)
}

// Clients describes all connections, in any order.
func (s *Server) Clients() []stats.Client {
	open := s.openSessions()
	all := make([]stats.Client, len(open))
	for i, c := range open {
		all[i] = c.ClientStats()
	}
	return all
}

// Stats returns the server's counters.
func (s *Server) Stats() Stats { return s.counters.stats() }

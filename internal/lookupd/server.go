package lookupd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/internal/complaint"
)

// Bounds of what connections may hold and how long they may take.
const (
	magicTimeout   = 10 * time.Second
	writeTimeout   = 10 * time.Second
	maxConnections = 10_000
	lingerTimeout  = 250 * time.Millisecond
	lingerBytes    = 64 << 10

	// A connection that cannot be accepted, for lack of a descriptor, stays in the queue: the next attempt would
	// fail at once. These bound the pause before it.
	minAcceptPause = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// Server speaks V1 with nodes.
type Server struct {
	// Directory is filled by the nodes' registrations. Required.
	Directory *Directory
	// Self is the server's description of itself, sent to nodes.
	Self Self
	// IdleTimeout ends a connection after that much silence; 0: never.
	IdleTimeout time.Duration
	// Log gets a line for nodes that connect, disconnect or are refused: at most one of each kind
	// per second. Required.
	Log *slog.Logger

	complaints complaint.Book
}

// Serve accepts nodes on l until ctx is done, and returns when every
// connection has ended. It closes l. The error is that of accepting, or nil
// when ctx is done.
func (srv *Server) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	defer l.Close()
	var connections sync.WaitGroup
	defer connections.Wait()
	places := make(chan struct{}, maxConnections)
	for pause := minAcceptPause; ; {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			var temporary interface{ Temporary() bool }
			if !errors.As(err, &temporary) || !temporary.Temporary() {
				return err
			}
			srv.complaints.Warn(srv.Log, time.Now(), "cannot accept connection; retrying", "error", err, "retry_in", pause)
			beat.Pause(ctx, pause)
			pause = min(2*pause, maxAcceptPause)
			continue
		}
		pause = minAcceptPause
		select {
		case places <- struct{}{}:
		default:
			srv.complaints.Warn(srv.Log, time.Now(), "connection refused: connection limit reached", "address", conn.RemoteAddr(), "limit", maxConnections)
			conn.Close()
			continue
		}
		connections.Go(func() {
			defer func() { <-places }()
			srv.handle(ctx, conn)
		})
	}
}

// handle serves one connection until it ends.
func (srv *Server) handle(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	remote := conn.RemoteAddr().String()
	var word [len(magic)]byte
	_ = conn.SetDeadline(time.Now().Add(magicTimeout))
	if _, err := io.ReadFull(conn, word[:]); err != nil {
		return
	}
	if string(word[:]) != magic {
		srv.complaints.Warn(srv.Log, time.Now(), "bad protocol magic: connection closed, the client does not speak the protocol of nsqlookupd", "address", remote)
		tell(conn, "E_BAD_PROTOCOL")
		return
	}
	s := &session{dir: srv.Directory, self: srv.Self, remote: remote, r: bufio.NewReaderSize(conn, maxLine), now: time.Now}
	defer func() {
		srv.Directory.Leave(s.id)
		if s.id != 0 {
			srv.complaints.Log(srv.Log, slog.LevelInfo, time.Now(), "producer disconnected", "address", remote)
		}
	}()
	for {
		deadline := time.Time{}
		if srv.IdleTimeout > 0 {
			deadline = time.Now().Add(srv.IdleTimeout)
		}
		_ = conn.SetReadDeadline(deadline)
		known := s.id != 0
		answer, err := s.next()
		_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if told, ok := errors.AsType[*refusal](err); ok {
			srv.complaints.Warn(srv.Log, time.Now(), "refused a command of a producer; its connection is closed", "address", remote, "error", err)
			tell(conn, told.text)
			return
		}
		if err != nil {
			return
		}
		if !known && s.id != 0 {
			srv.complaints.Log(srv.Log, slog.LevelInfo, time.Now(), "producer connected", "address", remote)
		}
		if err := writeAnswer(conn, answer); err != nil {
			return
		}
	}
}

// tell sends the last answer of a connection. Unread input is read for a moment: closing a
// connection with unread bytes resets it, and the peer would never see the reason.
func tell(conn net.Conn, text string) {
	if writeAnswer(conn, []byte(text)) != nil {
		return
	}
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Now().Add(lingerTimeout))
	_, _ = io.CopyN(io.Discard, conn, lingerBytes)
}

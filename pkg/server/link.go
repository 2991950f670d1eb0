package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/brokerd/brokerd/internal/signal"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/seq"
	"github.com/brokerd/brokerd/pkg/stats"
)

// errWriterGone ends a reader whose writer has ended.
var errWriterGone = errors.New("writer stopped")

// ended is how a connection ended, and why.
type ended struct {
	how Ending
	why error
}

// link is shared by a connection's reader and writer, the server and the broker: the socket, the
// answers in progress, what stats show, and the ways to end the connection. It is the
// consume.Client of the connection.
type link struct {
	srv    *Server
	log    *slog.Logger
	conn   *meteredConn
	tls    *tls.Conn // around conn; nil: none; used by the reader
	cancel context.CancelCauseFunc

	// ids are the ids of the subscription's messages. The reader sets them before the client can
	// get or answer a message.
	ids seq.Numbering
	// form is the form in which the consumer gets messages. The reader sets it at the same time.
	form nsq.Form

	queue      answerQueue
	direct     *direct
	wake       chan struct{} // of capacity 1: the writer has something to do
	writerDone chan struct{} // closed when the writer has ended
	cause      atomic.Pointer[ended]
	listening  atomic.Pointer[listening]        // nil: no subscription that the cluster's users have to permit
	verified   atomic.Pointer[x509.Certificate] // that the client has shown; nil: none

	mu       sync.Mutex // guards the following
	about    stats.Client
	produced map[string]*producedTopic // changed by the reader only
	deadline *time.Timer               // for a closing connection; set by the goroutine that stops it first
	gone     bool                      // the connection has ended
}

func newLink(srv *Server, conn net.Conn, cancel context.CancelCauseFunc) *link {
	host := remoteIP(conn)
	var raw syscall.RawConn
	if socket, ok := conn.(syscall.Conn); ok {
		raw, _ = socket.SyscallConn() // it fails if the socket is closed already
	}
	return &link{
		srv: srv, log: srv.log.With("remote", conn.RemoteAddr().String()), cancel: cancel,
		conn: &meteredConn{
			Conn: conn, counters: &srv.counters, body: arriving{memory: srv.opts.Memory, timeout: bodyTimeout},
			raw: raw, turns: srv.opts.Turns, quiet: srv.opts.quiet,
		},
		wake:       make(chan struct{}, 1),
		writerDone: make(chan struct{}),
		queue: answerQueue{
			maxCount: srv.opts.MaxPending, maxBytes: srv.opts.maxPendingBytes(), room: make(chan struct{}, 1),
		},
		about: stats.Client{
			Consumer: api.Consumer{ClientID: host, Hostname: host, Address: conn.RemoteAddr().String(), ConnectedAt: time.Now()},
		},
	}
}

// remoteIP returns the peer's address without its port, "" on a unix socket.
func remoteIP(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return ""
	}
	return host
}

// show changes what stats show about the connection.
func (l *link) show(change func(*stats.Client)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.about)
}

// linger lets the client read the last frames.
func (l *link) linger() {
	if l.tls != nil {
		// This reports to the client that nothing is missing. If it fails, closing the socket has
		// the same effect.
		_ = l.tls.CloseWrite()
	}
	l.conn.linger(l.srv.opts.LingerTimeout, l.srv.opts.Drops)
}

func (l *link) closeSocket() {
	l.mu.Lock()
	if l.gone = true; l.deadline != nil {
		l.deadline.Stop()
	}
	l.mu.Unlock()
	// All data has been written: an error has no consequence.
	_ = l.conn.Close()
	if l.tls != nil {
		l.srv.counters.openTLS.Add(-1)
	}
	end := l.cause.Load()
	l.srv.counters.ended[end.how].Add(1)
	const text = "connection closed"
	if end.how == EndProtocol || end.how == EndHandshake || end.how == EndTimeout {
		l.srv.complaints.Log(l.log, slog.LevelInfo, time.Now(), text, "how", end.how.String(), "error", end.why)
		return
	}
	l.log.Debug(text, "how", end.how.String(), "error", end.why)
}

// record keeps the first cause of the end.
func (l *link) record(how Ending, why error) { l.cause.CompareAndSwap(nil, &ended{how, why}) }

// stop ends the connection in order: it reads nothing more, and writes answers for at most
// CloseTimeout. It does not wait. Any goroutine may call it.
func (l *link) stop(how Ending, why error) {
	bound(l, how, why)
	l.conn.stop()
	l.poke()
}

// bound notes why the connection ends, and bounds the time that this takes.
func bound(l *link, how Ending, why error) {
	l.record(how, why)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deadline == nil && !l.gone {
		l.deadline = time.AfterFunc(l.srv.opts.CloseTimeout, func() { l.abort(how, why) })
	}
}

// retireTime limits how long a connection that has to end is still read.
const retireTime = 500 * time.Millisecond

// retire is stop for a client that did nothing wrong. No message is delivered any more. Commands
// that the client has sent already are executed and answered first: otherwise the client could not
// know their outcome. It does not wait. Any goroutine may call it.
func retire(l *link, how Ending, why error) {
	bound(l, how, why)
	l.conn.retire(time.Now().Add(min(retireTime, l.srv.opts.CloseTimeout/2)))
}

// abort ends the connection at once. It does not wait. Any goroutine may call it.
func (l *link) abort(how Ending, why error) {
	l.record(how, why)
	l.cancel(why)
	// The session closes it again: only that second close can fail.
	_ = l.conn.Close()
}

// Disconnect ends the connection: see consume.Client.
func (l *link) Disconnect(reason error) { l.stop(EndBroker, reason) }

// Unfinished notifies the client that a FIN came too late: see consume.Client. It does not notify a
// client that does not read its answers.
func (l *link) Unfinished(id seq.MessageID, reason error) {
	e := nsq.Errorf(failure.FinFailed, "%s %s failed %v", nsq.Fin, l.ids.ID(id), reason)
	a := l.newAnswer()
	a.frame = nsq.AppendFrame(nil, nsq.FrameError, e.Error())
	if !l.queue.tryPush(a) {
		a.release()
		return
	}
	l.srv.counters.errors[e.Code].Add(1)
	l.poke()
}

// poke wakes the writer.
func (l *link) poke() { signal.Poke(l.wake) }

// newAnswer returns an answer that is ready.
func (l *link) newAnswer() *answer {
	a := l.srv.answers.Get().(*answer)
	a.link = l
	a.phase.Store(phaseReady)
	return a
}

// push appends an answer when there is room.
func (l *link) push(ctx context.Context, a *answer) error {
	ready := a.phase.Load() == phaseReady
	for !l.queue.tryPush(a) {
		l.poke()
		select {
		case <-l.queue.room:
		case <-l.writerDone:
			return errWriterGone
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if ready {
		l.poke()
	}
	return nil
}

// answerFrame queues a response, and what the writer does after it.
func (l *link) answerFrame(ctx context.Context, data []byte, act func()) error {
	a := l.newAnswer()
	a.frame = nsq.AppendFrame(nil, nsq.FrameResponse, data)
	a.act = act
	return l.push(ctx, a)
}

// answerError queues an error that does not end the connection.
func (l *link) answerError(ctx context.Context, e *nsq.Error) error {
	a := l.newAnswer()
	a.frame = nsq.AppendFrame(nil, nsq.FrameError, e.Error())
	l.srv.counters.errors[e.Code].Add(1)
	return l.push(ctx, a)
}

// ClientStats describes the connection: see consume.Client.
func (l *link) ClientStats() stats.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	about := l.about
	if len(l.produced) > 0 {
		about.PubCounts = make(map[string]uint64, len(l.produced))
		for name, t := range l.produced {
			if n := t.published.Load(); n > 0 {
				about.PubCounts[name] = n
			}
		}
	}
	return about
}

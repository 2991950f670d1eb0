package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/server/auth"
	"github.com/brokerd/brokerd/pkg/topic"
)

// States of a connection, as shown in stats.
const (
	stateInit       = 0
	stateSubscribed = 3
	stateClosing    = 4
)

// errWriterGone ends a reader whose writer has ended.
var errWriterGone = errors.New("the writer has ended")

// ended says how a connection came to its end.
type ended struct {
	how Ending
	why error
}

// session is one connection. Its reader runs it; fields without a note belong
// to the reader.
type session struct {
	srv    *Server
	log    *slog.Logger
	conn   *meteredConn
	cancel context.CancelCauseFunc

	queue      answerQueue
	wake       chan struct{} // of capacity 1: the writer has something to look at
	writer     *writer
	writerDone chan struct{}
	cause      atomic.Pointer[ended]

	reader   *nsq.Reader
	stream   io.ReadWriter // the socket or what it was upgraded to
	tls      *tls.Conn
	upgraded bool
	state    int
	settings nsq.Settings
	sub      Subscription
	freed    int // messages answered and the writer not yet told
	commands [nsq.VerbCount]uint32
	messages []topic.Message // of the publish under way
	last     *producedTopic  // published to last
	secret   string
	grant    *auth.Grant

	mu       sync.Mutex // guards the following; only the reader changes the first two
	about    broker.ClientStats
	produced map[string]*producedTopic
	deadline *time.Timer // of a closing session; set by whoever stops it first
	gone     bool        // nothing is left to stop
}

// producedTopic is a topic that the connection has published to.
type producedTopic struct {
	name      string
	published atomic.Uint64
	allowed   *auth.Grant // that permitted it; of the reader
}

// maxProduced bounds the topics whose publishes a connection counts.
const maxProduced = 1000

func newSession(srv *Server, conn net.Conn, cancel context.CancelCauseFunc) *session {
	s := &session{
		srv: srv, log: srv.log.With("remote", conn.RemoteAddr().String()), cancel: cancel,
		conn:       &meteredConn{Conn: conn, counters: &srv.counters},
		wake:       make(chan struct{}, 1),
		writerDone: make(chan struct{}),
		settings:   srv.limits.Defaults(),
		queue: answerQueue{
			maxCount: srv.opts.MaxPending, maxBytes: srv.opts.MaxPendingBytes, room: make(chan struct{}, 1),
		},
	}
	s.conn.idle = s.rest
	s.stream = s.conn
	s.reader = nsq.NewReader(s.conn, &srv.buffers)
	s.writer = newWriter(s)
	host := remoteIP(conn)
	s.about = broker.ClientStats{
		ClientID: host, Hostname: host, RemoteAddress: conn.RemoteAddr().String(), ConnectTime: time.Now(),
	}
	s.describeSettingsLocked()
	return s
}

// remoteIP returns the peer's address without its port, "" on a unix socket.
func remoteIP(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return ""
	}
	return host
}

// run serves the connection until it ends.
func (s *session) run(ctx context.Context) {
	defer s.cancel(nil)
	s.conn.setPatience(s.srv.opts.MagicTimeout, time.Now())
	known, err := s.reader.ReadMagic()
	if err != nil {
		s.record(endingOf(err), err)
		close(s.writerDone)
		s.closeSocket()
		return
	}
	go s.writer.run(ctx)
	if known {
		s.conn.setPatience(2*s.settings.Heartbeat, time.Now())
		err = s.serve(ctx)
	} else {
		err = &nsq.Error{Code: nsq.BadProtocol}
	}
	s.finish(ctx, err)
}

// serve executes commands until one or the connection fails.
func (s *session) serve(ctx context.Context) error {
	var cmd nsq.Command
	for {
		if err := s.reader.Next(&cmd); err != nil {
			return err
		}
		s.conn.alive = true
		s.commands[cmd.Verb]++
		err := s.execute(ctx, &cmd)
		if err == nil {
			continue
		}
		refusal, ok := errors.AsType[*nsq.Error](err)
		if !ok || refusal.Fatal() {
			return err
		}
		if err := s.answerError(ctx, refusal); err != nil {
			return err
		}
	}
}

// rest does what was put off while commands kept coming. The connection calls
// it before it waits for input.
func (s *session) rest() {
	if s.freed > 0 {
		s.freed = 0
		s.poke()
	}
	for verb, n := range s.commands {
		if n > 0 {
			s.srv.counters.commands[verb].Add(uint64(n))
			s.commands[verb] = 0
		}
	}
}

// finish ends the connection after serve: the answers that it is owed are
// written as far as that is possible in a bounded time.
func (s *session) finish(ctx context.Context, err error) {
	s.rest()
	if s.sub != nil {
		s.sub.StopDelivery()
	}
	how := endingOf(err)
	s.record(how, err)
	if how == EndNetwork || how == EndTimeout || how == EndHandshake {
		s.abort(how, err)
	} else {
		s.stop(how, err)
		last := s.newAnswer()
		last.last = true
		last.fatal, _ = errors.AsType[*nsq.Error](err)
		// Where it cannot be queued the writer has ended, and that is what the
		// answer is for.
		_ = s.push(ctx, last)
	}
	<-s.writerDone
	if s.sub != nil {
		s.sub.Close()
		s.srv.counters.openConsumers.Add(-1)
	}
	if ctx.Err() == nil && how != EndClient {
		s.linger()
	}
	s.closeSocket()
	s.reader.Release()
}

// linger lets the client read what was written last.
func (s *session) linger() {
	if s.tls != nil {
		// The client sees that nothing was cut off; the socket says the same if
		// this fails.
		_ = s.tls.CloseWrite()
	}
	s.conn.linger(s.srv.opts.LingerTimeout)
}

func (s *session) closeSocket() {
	s.mu.Lock()
	if s.gone = true; s.deadline != nil {
		s.deadline.Stop()
	}
	s.mu.Unlock()
	// Nothing can be lost here any more.
	_ = s.conn.Close()
	if s.tls != nil {
		s.srv.counters.openTLS.Add(-1)
	}
	end := s.cause.Load()
	s.srv.counters.ended[end.how].Add(1)
	level := slog.LevelDebug
	if end.how == EndProtocol || end.how == EndHandshake || end.how == EndTimeout {
		level = slog.LevelInfo
	}
	s.log.Log(context.Background(), level, "connection closed", "how", end.how, "err", end.why)
}

// endingOf says what an error that ended the reading means.
func endingOf(err error) Ending {
	if _, ok := errors.AsType[*nsq.Error](err); ok {
		return EndProtocol
	}
	switch {
	case errors.Is(err, errHandshake):
		return EndHandshake
	case errors.Is(err, nsq.ErrLineTooLong), errors.Is(err, errWriterGone), errors.Is(err, nsq.ErrBadID):
		return EndProtocol
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return EndClient
	case errors.Is(err, errStopped):
		return EndBroker
	case errors.Is(err, os.ErrDeadlineExceeded):
		return EndTimeout
	}
	return EndNetwork
}

// record keeps the first cause of the end.
func (s *session) record(how Ending, why error) { s.cause.CompareAndSwap(nil, &ended{how, why}) }

// stop ends the connection in order: nothing more is read, answers are written
// for at most CloseTimeout. It does not wait; anyone may call it.
func (s *session) stop(how Ending, why error) {
	s.record(how, why)
	s.mu.Lock()
	if s.deadline == nil && !s.gone {
		s.deadline = time.AfterFunc(s.srv.opts.CloseTimeout, func() { s.abort(how, why) })
	}
	s.mu.Unlock()
	s.conn.stop()
	s.poke()
}

// abort ends the connection at once. It does not wait; anyone may call it.
func (s *session) abort(how Ending, why error) {
	s.record(how, why)
	s.cancel(why)
	// The session closes it again, and a second close is all that can fail.
	_ = s.conn.Close()
}

// Disconnect ends the connection: see broker.Client.
func (s *session) Disconnect(reason error) { s.stop(EndBroker, reason) }

// poke makes the writer look at what there is.
func (s *session) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// newAnswer returns an answer that is ready as it stands.
func (s *session) newAnswer() *answer {
	a := s.srv.answers.Get().(*answer)
	a.s = s
	a.phase.Store(phaseReady)
	return a
}

// push gives an answer its place, when there is room.
func (s *session) push(ctx context.Context, a *answer) error {
	ready := a.phase.Load() == phaseReady
	for !s.queue.tryPush(a) {
		s.poke()
		select {
		case <-s.queue.room:
		case <-s.writerDone:
			return errWriterGone
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if ready {
		s.poke()
	}
	return nil
}

// answerFrame queues a response, and what the writer does after it.
func (s *session) answerFrame(ctx context.Context, data []byte, act func()) error {
	a := s.newAnswer()
	a.frame = nsq.AppendFrame(nil, nsq.FrameResponse, data)
	a.act = act
	return s.push(ctx, a)
}

// answerError queues an error that does not end the connection.
func (s *session) answerError(ctx context.Context, e *nsq.Error) error {
	a := s.newAnswer()
	a.frame = nsq.AppendFrame(nil, nsq.FrameError, e.Error())
	s.srv.counters.errors[e.Code].Add(1)
	return s.push(ctx, a)
}

// topicFor returns the connection's entry of a topic, or nil for an invalid
// name.
func (s *session) topicFor(name []byte) *producedTopic {
	if s.last != nil && s.last.name == string(name) {
		return s.last
	}
	t := s.produced[string(name)]
	if t == nil {
		if !nsq.ValidName(string(name)) {
			return nil
		}
		t = &producedTopic{name: string(name)}
		if len(s.produced) < maxProduced {
			s.mu.Lock()
			if s.produced == nil {
				s.produced = make(map[string]*producedTopic)
			}
			s.produced[t.name] = t
			s.mu.Unlock()
		}
	}
	s.last = t
	return t
}

// describe changes what stats show of the connection.
func (s *session) describe(change func(*broker.ClientStats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.about)
	s.describeSettingsLocked()
}

func (s *session) describeSettingsLocked() {
	s.about.State = s.state
	s.about.SampleRate = s.settings.SampleRate
	s.about.OutputBufferSize = s.settings.OutputBufferSize
	s.about.OutputBufferTimeout = s.settings.OutputBufferTimeout
	s.about.MsgTimeout = s.settings.MsgTimeout
}

// ClientStats describes the connection: see broker.Client.
func (s *session) ClientStats() broker.ClientStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	about := s.about
	if len(s.produced) > 0 {
		about.PubCounts = make(map[string]uint64, len(s.produced))
		for name, t := range maps.All(s.produced) {
			if n := t.published.Load(); n > 0 {
				about.PubCounts[name] = n
			}
		}
	}
	return about
}

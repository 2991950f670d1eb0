package server

import (
	"container/list"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/header"
	"github.com/brokerd/brokerd/pkg/limit"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/stats"
)

// States of a connection, as stats show them.
const (
	stateInit       = 0
	stateSubscribed = stats.Subscribed
	stateClosing    = 4
)

// session is the reader's side of one connection: all its fields belong to the reader.
type session struct {
	*link
	writer    *writer
	reader    *nsq.Reader
	publisher *publisher
	memory    *bodyMemory // for the reader: bodies and their messages
	standing  limit.Share // what the connection holds for its whole life
	rights    *rights
	stream    io.ReadWriter // the socket, or TLS or compression around it
	upgraded  bool
	state     int
	settings  nsq.Settings
	filter    *header.Filter // for messages; nil: all
	sub       Subscription
	freed     int // messages that were answered without waking the writer yet
	commands  [nsq.VerbCount]uint32
	spent     int         // bytes of commands before AUTH
	proven    atomic.Bool // the client has authenticated
	proving   atomic.Bool // AUTH has arrived

	place   string        // the client's address without its port
	listed  *list.Element // in Server.waiting; guarded by the server's lock, as are since and overdue
	since   time.Time     // it has to authenticate
	overdue *time.Timer   // ends the connection if it has to authenticate and does not
}

func newSession(ctx context.Context, srv *Server, conn net.Conn, cancel context.CancelCauseFunc) *session {
	l := newLink(srv, conn, cancel)
	s := &session{link: l, stream: l.conn, settings: srv.limits.Defaults(), standing: srv.opts.Memory.Share(limit.Connections), place: remoteIP(conn)}
	l.conn.idle, l.conn.owed = s.rest, l.queue.any
	l.conn.retired = func() {
		if s.sub != nil {
			s.sub.StopDelivery()
		}
	}
	s.reader = nsq.NewReader(l.conn, &srv.buffers)
	s.rights = &rights{link: l}
	s.memory = newBodyMemory(ctx, srv.opts.Memory)
	s.reader.SetMemory(s.memory)
	s.publisher = newPublisher(l, s.reader, s.rights, s.memory)
	s.writer = newWriter(l, &s.settings)
	l.direct = newDirect(s.writer)
	s.describe(func(*stats.Client) {})
	return s
}

// run serves the connection until it ends.
func (s *session) run(ctx context.Context) {
	defer s.cancel(nil)
	defer s.standing.Close()
	defer s.memory.share.Close()
	defer s.reader.Release()
	s.conn.setIdleTimeout(magicTimeout, time.Now())
	known, err := s.reader.ReadMagic()
	if err != nil {
		s.record(endingOf(err), err)
		close(s.writerDone)
		s.closeSocket()
		return
	}
	go s.writer.run(ctx)
	if known {
		s.conn.setIdleTimeout(2*s.settings.Heartbeat, time.Now())
		err = s.serve(ctx)
	} else {
		err = &nsq.Error{Code: failure.BadProtocol}
	}
	s.finish(ctx, err)
}

// serve executes commands until a command or the connection fails.
func (s *session) serve(ctx context.Context) error {
	var cmd nsq.Command
	for {
		if err := s.reader.Next(&cmd); err != nil {
			return err
		}
		s.conn.alive = true
		s.commands[cmd.Verb]++
		err := s.spend(s.reader.LineSize(), cmd.Verb)
		if err == nil {
			err = s.execute(ctx, &cmd)
		}
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

// rest does the work that was postponed while commands kept arriving. The connection calls it
// before it waits for input.
func (s *session) rest() {
	if s.freed > 0 {
		s.freed = 0
		if !s.sub.Waits() {
			s.poke()
		}
	}
	for verb, n := range s.commands {
		if n > 0 {
			s.srv.counters.commands[verb].Add(uint64(n))
			s.commands[verb] = 0
		}
	}
}

// finish ends the connection after serve. It writes the answers that the client is owed, as far as
// possible in a bounded time.
func (s *session) finish(ctx context.Context, err error) {
	s.rest()
	s.conn.endBurst()
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
		last.fatal, _ = errors.AsType[*nsq.Error](s.cause.Load().why)
		// If it cannot be queued, the writer has ended, which is what the answer is for.
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
}

// endingOf returns the Ending for an error that ended the reading.
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

// describe changes what stats show about the connection.
func (s *session) describe(change func(*stats.Client)) {
	s.show(func(about *stats.Client) {
		change(about)
		about.State = s.state
		about.SampleRate = s.settings.SampleRate
	})
}

package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/flate"

	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/stats"
)

// upgrade answers an IDENTIFY without encryption, and then upgrades the stream as agreed: first to
// TLS, then to one of the compressions around it. After each step it sends an answer through the
// new stream.
//
// The writer pauses meanwhile. Input that was read ahead belongs to the new stream.
func (s *session) upgrade(ctx context.Context, answer []byte, apply func()) error {
	h := newHandover()
	a := s.newAnswer()
	a.frame = nsq.AppendFrame(nil, nsq.FrameResponse, answer)
	a.act, a.hand = apply, h
	if err := s.push(ctx, a); err != nil {
		return err
	}
	select {
	case <-h.still:
	case <-s.writerDone:
		return errWriterGone
	}
	defer close(h.resume)
	s.upgraded = true
	s.conn.ahead = s.reader.TakeBuffered()
	ok := nsq.AppendFrame(nil, nsq.FrameResponse, nsq.OK)
	if s.settings.TLS {
		if err := s.startTLS(ctx); err != nil {
			return fmt.Errorf("%w: %w", errHandshake, err)
		}
		if err := s.writer.write(ok); err != nil {
			return err
		}
	}
	switch {
	case s.settings.Snappy:
		if err := s.startSnappy(); err != nil {
			return err
		}
	case s.settings.Deflate:
		if err := s.startDeflate(); err != nil {
			return err
		}
	default:
		return nil
	}
	return s.writer.write(ok)
}

var errNoTLS = errors.New("TLS no longer configured")

// startTLS does the server's TLS handshake.
func (s *session) startTLS(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.srv.opts.HandshakeTimeout)
	defer cancel()
	config := s.srv.opts.TLS()
	if config == nil {
		return errNoTLS
	}
	conn := tls.Server(s.conn, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	s.tls = conn
	s.srv.counters.openTLS.Add(1)
	state := conn.ConnectionState()
	s.verified.Store(guard.Verified(&state))
	if s.byCertificate(time.Now()) {
		s.srv.authenticated(s)
	}
	s.describe(func(about *stats.Client) {
		about.TLS = true
		about.TLSVersion = tls.VersionName(state.Version)
		about.TLSCipherSuite = tls.CipherSuiteName(state.CipherSuite)
		about.TLSNegotiatedProtocol = state.NegotiatedProtocol
		about.TLSMutual = len(state.PeerCertificates) > 0
	})
	s.replace(conn, conn, nil)
	return nil
}

// startSnappy puts the snappy framing format around the stream.
func (s *session) startSnappy() error {
	to, flush, err := compressed(s.stream, &s.srv.buffers, snappyAround)
	if err != nil {
		return err
	}
	s.describe(func(about *stats.Client) { about.Snappy = true })
	s.replace(inTurns{snappy.NewReader(s.stream), s.conn}, to, flush)
	return nil
}

// startDeflate puts raw deflate around the stream.
func (s *session) startDeflate() error {
	to, flush, err := compressed(s.stream, &s.srv.buffers, deflateAround(s.settings.DeflateLevel))
	if err != nil {
		return err
	}
	s.describe(func(about *stats.Client) { about.Deflate = true })
	s.replace(inTurns{flate.NewReader(s.stream), s.conn}, to, flush)
	return nil
}

// replace makes the reader and the writer use a new stream.
func (s *session) replace(from io.Reader, to io.Writer, flush func() error) {
	if both, ok := to.(io.ReadWriter); ok {
		s.stream = both
	}
	s.reader.Replace(from)
	s.writer.out, s.writer.flush = to, flush
	s.conn.setIdleTimeout(2*s.settings.Heartbeat, time.Now())
}

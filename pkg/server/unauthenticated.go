package server

import (
	"container/list"
	"context"
	"crypto/x509"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// Limits of a connection that has to authenticate, by AUTH or by a client certificate, and has not yet.
const (
	authTimeout = 5 * time.Second // from accept to AUTH, with the magic bytes, IDENTIFY and the TLS handshake
	authBytes   = 4 << 10         // of commands before AUTH; AUTH itself has a body of at most as much, without auth servers
	// authGrace is how long a connection has in any case. Until one of those that are too many is so old, no further one
	// is accepted: a burst of connections waits in the kernel, and each gets its turn.
	authGrace = 100 * time.Millisecond
	// authShare is the part of the connections, as its inverse, that may be unauthenticated.
	authShare = 4
	// authMost is how many connections may be unauthenticated if the number of connections is not limited.
	authMost = 2500
)

// unauthenticated are the open connections that have to authenticate and have not yet, oldest first. If there are too
// many, the oldest one of the address that has most is closed for a new one, after authGrace: a client that
// authenticates at once gets in, however many others do not. The server's lock guards it.
type unauthenticated struct {
	most int
	all  list.List      // of *session
	of   map[string]int // connections by address; entries are above 0
}

func newUnauthenticated(maxConnections int) unauthenticated {
	u := unauthenticated{most: authMost, of: map[string]int{}}
	if maxConnections > 0 {
		u.most = max(maxConnections/authShare, 1)
	}
	return u
}

// add adds a connection, unless it is there.
func (u *unauthenticated) add(c *session) {
	if c.listed != nil {
		return
	}
	c.listed = u.all.PushBack(c)
	u.of[c.place]++
}

// remove removes a connection, if it is there.
func (u *unauthenticated) remove(c *session) {
	if c.listed == nil {
		return
	}
	u.all.Remove(c.listed)
	c.listed = nil
	if u.of[c.place]--; u.of[c.place] == 0 {
		delete(u.of, c.place)
	}
}

// next returns the oldest connection of the address that has most; nil: there is no connection.
func (u *unauthenticated) next() *session {
	most := 0
	for _, n := range u.of {
		most = max(most, n)
	}
	for e := u.all.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*session); u.of[c.place] == most {
			return c
		}
	}
	return nil
}

// demandsAuth reports whether clients have to authenticate before they may do anything.
func (s *Server) demandsAuth() bool { return s.opts.Auth != nil || s.opts.Guard.Directory().On() }

// makeRoom makes room for a new connection that has to authenticate, if that is possible. It may wait until one of
// those that have not authenticated has had authGrace.
func (s *Server) makeRoom(ctx context.Context) {
	for s.demandsAuth() {
		now := time.Now()
		c, wait := s.evict(now)
		switch {
		case c == nil:
			return
		case wait <= 0:
			s.complaints.Warn(s.log, now, "connection closed before AUTH: too many connections have not authenticated",
				"remote", c.conn.RemoteAddr(), "limit", s.waiting.most)
			c.abort(EndLimit, errEvicted)
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// evict removes a connection for a new one, or returns how long it may still stay; nil: there is room, or none can be
// made.
func (s *Server) evict(now time.Time) (*session, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := s.opts.MaxConnections > 0 && len(s.sessions) >= s.opts.MaxConnections
	if s.closed || !full && s.waiting.all.Len() < s.waiting.most {
		return nil, 0
	}
	c := s.waiting.next()
	if c == nil {
		return nil, 0
	}
	if wait := c.since.Add(authGrace).Sub(now); wait > 0 {
		return c, wait
	}
	s.waiting.remove(c)
	delete(s.sessions, c)
	return c, 0
}

var errEvicted = nsq.Errorf(failure.AuthFirst, "too many connections have not authenticated")

// awaitAuth ends an open connection unless it authenticates within authTimeout.
func (s *Server) awaitAuth(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.sessions[c]; !open || c.listed != nil {
		return
	}
	s.waiting.add(c)
	c.since = time.Now()
	if c.overdue != nil {
		c.overdue.Stop()
	}
	c.overdue = time.AfterFunc(authTimeout, func() {
		if !c.proven.Load() && !c.proving.Load() && s.demandsAuth() {
			c.stop(EndTimeout, nsq.Errorf(failure.AuthFirst, "AUTH required within %v", authTimeout))
		}
	})
}

// authenticated notes that a connection has authenticated.
func (s *Server) authenticated(c *session) {
	c.proven.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked(c)
}

// settleLocked removes a connection from those that have to authenticate.
func (s *Server) settleLocked(c *session) {
	s.waiting.remove(c)
	if c.overdue != nil {
		c.overdue.Stop()
	}
}

// byCertificate reports whether the connection's certificate is that of a user: it then need not send AUTH.
func (c *session) byCertificate(now time.Time) bool {
	d := c.srv.opts.Guard.Directory()
	return d.On() && guard.Certificate(c.verified.Load()).User(d, now.UnixNano()) != nil
}

// endOverdue has the open connections authenticate that need not have when they were accepted, and ends those whose
// client certificate has expired.
func (s *Server) endOverdue(now time.Time) {
	demands := s.demandsAuth()
	if !demands && s.counters.openTLS.Load() == 0 {
		return
	}
	for _, c := range s.openSessions() {
		switch cert := c.verified.Load(); {
		case expired(cert, now):
			c.stop(EndBroker, nsq.Errorf(failure.AuthFailed, "client certificate expired at %s", cert.NotAfter.UTC().Format(time.RFC3339)))
		case !demands || c.proven.Load():
		case c.byCertificate(now):
			s.authenticated(c)
		default:
			s.awaitAuth(c)
		}
	}
}

func expired(c *x509.Certificate, now time.Time) bool { return c != nil && now.After(c.NotAfter) }

// allowed returns the largest body of IDENTIFY or AUTH that the connection may send now.
func (c *session) allowed(verb nsq.Verb) int {
	most := c.srv.maxIntroduction()
	switch {
	case c.proven.Load() || !c.srv.demandsAuth():
	case verb == nsq.Identify:
		return min(most, max(authBytes-c.spent, 0))
	case c.srv.opts.Auth == nil: // a token; the secrets of auth servers may be longer
		return min(most, authBytes)
	}
	return most
}

// spend counts the bytes of a command against what the connection may send before AUTH.
func (c *session) spend(n int, verb nsq.Verb) error {
	if c.proven.Load() || !c.srv.demandsAuth() {
		return nil
	}
	if c.spent += n; c.spent > authBytes && verb != nsq.Auth {
		return nsq.Errorf(failure.AuthFirst, "AUTH required within %d bytes", authBytes)
	}
	return nil
}

package server

import (
	"context"
	"encoding/json"
	"time"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/server/auth"
	"github.com/brokerd/brokerd/pkg/stats"
)

// authorized is the answer to AUTH.
type authorized struct {
	Identity    string `json:"identity"`
	IdentityURL string `json:"identity_url"`
	Permissions int    `json:"permission_count"`
}

// rights is what one connection may do: by the cluster's users if access control is on, or by an
// auth server. It belongs to the connection's reader.
type rights struct {
	link   *link
	secret string      // for auth servers
	grant  *auth.Grant // from an auth server; nil before AUTH
	who    *guard.Identity
	looked bool // the certificate was looked at
	shown  bool // AUTH has succeeded
}

// auth is AUTH: the client's secret is a token of a user, or a secret for an auth server.
func (s *session) auth(ctx context.Context, cmd *nsq.Command) error {
	if s.state != stateInit {
		return wrongState(cmd)
	}
	if cmd.Len() != 0 {
		return nsq.Errorf(failure.BadCommand, "AUTH invalid number of parameters")
	}
	body, err := readCommandBody(s.conn, s.reader, "AUTH", s.allowed(nsq.Auth))
	if err != nil {
		return err
	}
	s.proving.Store(true)
	secret := string(body)
	on, token := s.srv.opts.Guard.Directory().On(), access.IsToken(secret)
	switch {
	case s.rights.shown:
		return nsq.Errorf(failure.BadCommand, "AUTH already set")
	case !on && s.srv.opts.Auth == nil:
		return nsq.Errorf(failure.AuthDisabled, "AUTH disabled")
	case token || s.srv.opts.Auth == nil: // a token is for this cluster: no auth server gets it
		return authenticating{s}.user(ctx, secret)
	}
	s.rights.secret = secret
	grant, err := s.rights.ask(ctx)
	if err != nil {
		return err
	}
	if grant.Permissions() == 0 {
		s.srv.counters.authFailures.Add(1)
		return nsq.Errorf(failure.Unauthorized, "AUTH no authorizations found")
	}
	s.rights.grant = grant
	return authenticating{s}.answer(ctx, authorized{grant.Identity, grant.IdentityURL, grant.Permissions()})
}

// authenticating executes AUTH.
type authenticating struct{ session *session }

// user handles AUTH of a user: by a token or, if the secret is no token, by the certificate.
func (a authenticating) user(ctx context.Context, secret string) error {
	s := a.session
	now := time.Now()
	who := s.rights.certificate()
	if access.IsToken(secret) || who.User(s.srv.opts.Guard.Directory(), now.UnixNano()) == nil {
		var err error
		if who, err = s.srv.opts.Guard.Token(s.conn.RemoteAddr(), secret, now); err != nil {
			return s.rights.fail(err.Error())
		}
	}
	u := who.User(s.srv.opts.Guard.Directory(), now.UnixNano())
	switch {
	case u == nil: // it was revoked meanwhile
		return s.rights.fail("the user or the token was deleted")
	case len(u.Rules) == 0:
		s.srv.counters.authFailures.Add(1)
		return nsq.Errorf(failure.Unauthorized, "AUTH no authorizations found")
	}
	s.rights.who, s.rights.looked = who, true
	return a.answer(ctx, authorized{Identity: u.Name, Permissions: len(u.Rules)})
}

func (a authenticating) answer(ctx context.Context, who authorized) error {
	s := a.session
	s.rights.shown = true
	s.srv.authenticated(s)
	s.describe(func(about *stats.Client) {
		about.Authed, about.AuthIdentity, about.AuthIdentityURL = true, who.Identity, who.IdentityURL
	})
	answer, err := json.Marshal(who)
	if err != nil {
		return nsq.Errorf(failure.AuthError, "AUTH error %v", err)
	}
	return s.answerFrame(ctx, answer, nil)
}

// fail logs why AUTH failed. The client does not get the reason.
func (r *rights) fail(why string) error {
	r.link.srv.counters.authFailures.Add(1)
	r.link.srv.complaints.Warn(r.link.log, time.Now(), "authorization failed: the client stays without rights", "error", why)
	return nsq.Errorf(failure.AuthFailed, "AUTH failed")
}

// certificate returns the identity in the connection's verified certificate, or nil.
func (r *rights) certificate() *guard.Identity {
	return guard.Certificate(r.link.verified.Load())
}

// ask asks the auth servers what the connection may do. It logs the reason of a failure; the client
// does not get it.
func (r *rights) ask(ctx context.Context) (*auth.Grant, error) {
	q := auth.Query{RemoteIP: remoteIP(r.link.conn), TLS: r.link.tls != nil, Secret: r.secret}
	if r.link.tls != nil {
		if certs := r.link.tls.ConnectionState().PeerCertificates; len(certs) > 0 {
			q.CommonName = certs[0].Subject.CommonName
		}
	}
	grant, err := r.link.srv.opts.Auth.Grant(ctx, q, time.Now())
	if err != nil {
		return nil, r.fail(err.Error())
	}
	return grant, nil
}

// permit checks the connection's right to use a topic, and a channel if one is named. It asks again
// if the grant of an auth server has expired.
func (r *rights) permit(ctx context.Context, verb nsq.Verb, want access.Demand) error {
	if d := r.link.srv.opts.Guard.Directory(); r.byUsers(d) {
		if who := r.identity(); who != nil || r.link.srv.opts.Auth == nil {
			return r.link.srv.permitUser(d, who, verb, want)
		}
	}
	if err := r.fresh(ctx, verb); err != nil || r.link.srv.opts.Auth == nil {
		return err
	}
	if !r.grant.Allows(want.Topic, want.Channel) {
		return r.link.srv.unauthorized(verb, want)
	}
	return nil
}

// byUsers reports whether the rules of the cluster's users decide. If there are auth servers, a
// client that sent a token is a user even while access control is off: an auth server does not know
// that client.
func (r *rights) byUsers(d *access.Directory) bool {
	return r.grant == nil && (d.On() || r.shown && r.link.srv.opts.Auth != nil)
}

// publish is permit for publishes. It remembers the grant that allowed it.
func (r *rights) publish(ctx context.Context, verb nsq.Verb, t *producedTopic) error {
	d := r.link.srv.opts.Guard.Directory()
	users := r.byUsers(d)
	if users && t.permitted == d && (r.who.Expires() == 0 || time.Now().UnixNano() < r.who.Expires()) {
		return nil
	}
	if !users {
		if r.link.srv.opts.Auth == nil {
			return nil
		}
		if err := r.fresh(ctx, verb); err != nil || t.allowed == r.grant {
			return err
		}
	}
	if err := r.permit(ctx, verb, access.Demand{Right: access.Publish, Topic: t.name}); err != nil {
		return err
	}
	t.allowed = r.grant
	if users {
		t.permitted = d
	}
	return nil
}

// identity returns the identity of the connection: from its token or its certificate.
func (r *rights) identity() *guard.Identity {
	if !r.looked && r.who == nil {
		r.who, r.looked = r.certificate(), true
	}
	return r.who
}

// permitUser decides by a directory whether an identity may do something.
func (s *Server) permitUser(d *access.Directory, who *guard.Identity, verb nsq.Verb, want access.Demand) error {
	u := who.User(d, time.Now().UnixNano())
	switch {
	case who == nil:
		return nsq.Errorf(failure.AuthFirst, "AUTH required before %s", verb)
	case u == nil: // the token, the certificate's name or the user was removed
		s.counters.authFailures.Add(1)
		return nsq.Errorf(failure.AuthFailed, "AUTH failed")
	}
	if _, ok := d.Check(u.Name, want); !ok {
		return s.unauthorized(verb, want)
	}
	return nil
}

func (s *Server) unauthorized(verb nsq.Verb, want access.Demand) error {
	s.counters.authFailures.Add(1)
	return nsq.Errorf(failure.Unauthorized, "AUTH failed for %s on %q %q", verb, want.Topic, want.Channel)
}

// fresh makes sure that there is a grant that has not expired.
func (r *rights) fresh(ctx context.Context, verb nsq.Verb) error {
	if r.link.srv.opts.Auth == nil {
		return nil
	}
	if r.grant == nil {
		return nsq.Errorf(failure.AuthFirst, "AUTH required before %s", verb)
	}
	if !r.grant.Expired(time.Now()) {
		return nil
	}
	grant, err := r.ask(ctx)
	if err != nil {
		return err
	}
	r.grant = grant
	return nil
}

// listening is a subscription that is valid only while it is permitted.
type listening struct {
	who  *guard.Identity
	verb nsq.Verb
	want access.Demand
}

// listen notes what the connection is about to subscribe to, before that is permitted:
// EnforceAccess sees every change from then on.
func (r *rights) listen(verb nsq.Verb, want access.Demand) {
	who := r.identity()
	if r.grant == nil {
		r.link.listening.Store(&listening{who, verb, want})
	}
}

// expiryInterval is how often EnforceAccess looks for subscriptions whose tokens have expired, and for connections whose
// client certificates have.
const expiryInterval = 2 * time.Second

// EnforceAccess ends subscriptions that are no longer permitted, until ctx ends: because rules have
// changed, or tokens were revoked or have expired. It ends connections that must authenticate since access control was
// enabled and do not, and those whose client certificate has expired.
func (s *Server) EnforceAccess(ctx context.Context) {
	tick := time.NewTicker(expiryInterval)
	defer tick.Stop()
	was := s.opts.Guard.Directory()
	for {
		changed := s.opts.Guard.Changed()
		d := s.opts.Guard.Directory()
		if d != was {
			s.endForbidden(d)
			s.endOverdue(time.Now())
			was = d
		}
		select {
		case <-changed:
		case <-tick.C:
			if d.On() {
				s.endForbidden(d)
			}
			s.endOverdue(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// endForbidden ends the subscriptions that a directory does not permit.
func (s *Server) endForbidden(d *access.Directory) {
	if !d.On() {
		return
	}
	for _, c := range s.openSessions() {
		l := c.listening.Load()
		if l == nil || l.who == nil && s.opts.Auth != nil {
			continue
		}
		if err := s.permitUser(d, l.who, l.verb, l.want); err != nil {
			c.stop(EndBroker, err)
		}
	}
}

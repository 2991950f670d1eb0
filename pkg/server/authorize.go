package server

import (
	"context"
	"encoding/json"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
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

// rights is what one connection may do. It belongs to the connection's reader.
type rights struct {
	link   *link
	secret string
	grant  *auth.Grant // nil before AUTH
}

// auth is AUTH: it takes the client's secret to an auth server.
func (s *session) auth(ctx context.Context, cmd *nsq.Command) error {
	if s.state != stateInit {
		return wrongState(cmd)
	}
	if cmd.Len() != 0 {
		return nsq.Errorf(failure.BadCommand, "AUTH invalid number of parameters")
	}
	body, err := readCommandBody(s.conn, s.reader, "AUTH", s.srv.maxIntroduction())
	switch {
	case err != nil:
		return err
	case s.rights.grant != nil:
		return nsq.Errorf(failure.BadCommand, "AUTH already set")
	case s.srv.opts.Auth == nil:
		return nsq.Errorf(failure.AuthDisabled, "AUTH disabled")
	}
	s.rights.secret = string(body)
	grant, err := s.rights.ask(ctx)
	if err != nil {
		return err
	}
	if grant.Permissions() == 0 {
		s.srv.counters.authFailures.Add(1)
		return nsq.Errorf(failure.Unauthorized, "AUTH no authorizations found")
	}
	s.rights.grant = grant
	s.describe(func(about *stats.Client) {
		about.Authed, about.AuthIdentity, about.AuthIdentityURL = true, grant.Identity, grant.IdentityURL
	})
	answer, err := json.Marshal(authorized{grant.Identity, grant.IdentityURL, grant.Permissions()})
	if err != nil {
		return nsq.Errorf(failure.AuthError, "AUTH error %v", err)
	}
	return s.answerFrame(ctx, answer, nil)
}

// ask asks what the connection may do. Why it failed is logged and not told.
func (r *rights) ask(ctx context.Context) (*auth.Grant, error) {
	q := auth.Query{RemoteIP: remoteIP(r.link.conn), TLS: r.link.tls != nil, Secret: r.secret}
	if r.link.tls != nil {
		if certs := r.link.tls.ConnectionState().PeerCertificates; len(certs) > 0 {
			q.CommonName = certs[0].Subject.CommonName
		}
	}
	grant, err := r.link.srv.opts.Auth.Grant(ctx, q, time.Now())
	if err != nil {
		r.link.srv.counters.authFailures.Add(1)
		r.link.srv.complaints.Warn(r.link.log, time.Now(), "authorization failed", "error", err)
		return nil, nsq.Errorf(failure.AuthFailed, "AUTH failed")
	}
	return grant, nil
}

// permit checks the connection's right to use a topic, and a channel when one is
// named. A grant that has run out is asked for again.
func (r *rights) permit(ctx context.Context, verb nsq.Verb, topic, channel string) error {
	if err := r.fresh(ctx, verb); err != nil || r.link.srv.opts.Auth == nil {
		return err
	}
	if !r.grant.Allows(topic, channel) {
		r.link.srv.counters.authFailures.Add(1)
		return nsq.Errorf(failure.Unauthorized, "AUTH failed for %s on %q %q", verb, topic, channel)
	}
	return nil
}

// publish is permit for publishes. It remembers what the grant allowed.
func (r *rights) publish(ctx context.Context, verb nsq.Verb, t *producedTopic) error {
	if r.link.srv.opts.Auth == nil {
		return nil
	}
	if err := r.fresh(ctx, verb); err != nil || t.allowed == r.grant {
		return err
	}
	if err := r.permit(ctx, verb, t.name, ""); err != nil {
		return err
	}
	t.allowed = r.grant
	return nil
}

// fresh makes sure that there is a grant that counts.
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

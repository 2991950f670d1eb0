package server

import (
	"context"
	"encoding/json"
	"time"

	"github.com/brokerd/brokerd/pkg/broker"
	"github.com/brokerd/brokerd/pkg/nsq"
	"github.com/brokerd/brokerd/pkg/server/auth"
)

// authorized is the answer to AUTH.
type authorized struct {
	Identity    string `json:"identity"`
	IdentityURL string `json:"identity_url"`
	Permissions int    `json:"permission_count"`
}

// auth is AUTH: it takes the client's secret to an auth server.
func (s *session) auth(ctx context.Context, cmd *nsq.Command) error {
	if s.state != stateInit {
		return wrongState(cmd)
	}
	if cmd.Len() != 0 {
		return nsq.Errorf(nsq.Invalid, "AUTH invalid number of parameters")
	}
	body, err := s.commandBody("AUTH")
	switch {
	case err != nil:
		return err
	case s.grant != nil:
		return nsq.Errorf(nsq.Invalid, "AUTH already set")
	case s.srv.opts.Auth == nil:
		return nsq.Errorf(nsq.AuthDisabled, "AUTH disabled")
	}
	s.secret = string(body)
	grant, err := s.askGrant(ctx)
	if err != nil {
		return err
	}
	if grant.Permissions() == 0 {
		s.srv.counters.authFailures.Add(1)
		return nsq.Errorf(nsq.Unauthorized, "AUTH no authorizations found")
	}
	s.grant = grant
	s.describe(func(about *broker.ClientStats) {
		about.Authed, about.AuthIdentity, about.AuthIdentityURL = true, grant.Identity, grant.IdentityURL
	})
	answer, err := json.Marshal(authorized{grant.Identity, grant.IdentityURL, grant.Permissions()})
	if err != nil {
		return nsq.Errorf(nsq.AuthError, "AUTH error %v", err)
	}
	return s.answerFrame(ctx, answer, nil)
}

// askGrant asks what the connection may do. Why it failed is logged and not told.
func (s *session) askGrant(ctx context.Context) (*auth.Grant, error) {
	q := auth.Query{RemoteIP: remoteIP(s.conn), TLS: s.tls != nil, Secret: s.secret}
	if s.tls != nil {
		if certs := s.tls.ConnectionState().PeerCertificates; len(certs) > 0 {
			q.CommonName = certs[0].Subject.CommonName
		}
	}
	grant, err := s.srv.opts.Auth.Grant(ctx, q, time.Now())
	if err != nil {
		s.srv.counters.authFailures.Add(1)
		s.log.Warn("authorization failed", "err", err)
		return nil, nsq.Errorf(nsq.AuthFailed, "AUTH failed")
	}
	return grant, nil
}

// permit checks the connection's right to use a topic, and a channel when one is
// named. A grant that has run out is asked for again.
func (s *session) permit(ctx context.Context, verb nsq.Verb, topic, channel string) error {
	if err := s.freshGrant(ctx, verb); err != nil || s.srv.opts.Auth == nil {
		return err
	}
	if !s.grant.Allows(topic, channel) {
		s.srv.counters.authFailures.Add(1)
		return nsq.Errorf(nsq.Unauthorized, "AUTH failed for %s on %q %q", verb, topic, channel)
	}
	return nil
}

// mayPublish is permit for publishes. It remembers what the grant allowed.
func (s *session) mayPublish(ctx context.Context, verb nsq.Verb, t *producedTopic) error {
	if s.srv.opts.Auth == nil {
		return nil
	}
	if err := s.freshGrant(ctx, verb); err != nil || t.allowed == s.grant {
		return err
	}
	if err := s.permit(ctx, verb, t.name, ""); err != nil {
		return err
	}
	t.allowed = s.grant
	return nil
}

// freshGrant makes sure that there is a grant that counts.
func (s *session) freshGrant(ctx context.Context, verb nsq.Verb) error {
	if s.srv.opts.Auth == nil {
		return nil
	}
	if s.grant == nil {
		return nsq.Errorf(nsq.AuthFirst, "AUTH required before %s", verb)
	}
	if !s.grant.Expired(time.Now()) {
		return nil
	}
	grant, err := s.askGrant(ctx)
	if err != nil {
		return err
	}
	s.grant = grant
	return nil
}

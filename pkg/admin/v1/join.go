package v1

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"time"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/meta"
)

// How long a join token lasts.
const (
	joinTokenExpiry    = 24 * time.Hour
	maxJoinTokenExpiry = 30 * 24 * time.Hour
)

func (v accessAPI) routeJoins(t *API) {
	t.handle("GET /v1/access/join-tokens", v.joinTokens)
	t.handle("POST /v1/access/join-tokens", with(readJSON, v.createJoinToken))
	t.handle("DELETE /v1/access/join-tokens/{id}", v.revokeJoinToken)
	t.handle("POST /v1/access/join-tokens/require", v.requireJoinTokens(access.RequireJoinTokens))
	t.handle("POST /v1/access/join-tokens/waive", v.requireJoinTokens(access.WaiveJoinTokens))
}

func (v accessAPI) joinTokens(*http.Request) (answer, error) {
	d, now := v.of.Directory(), time.Now()
	out := api.JoinTokens{Required: d.JoinTokensRequired(), Tokens: []api.JoinToken{}}
	for _, t := range d.JoinTokens() {
		out.Tokens = append(out.Tokens, apiJoinToken(t, now))
	}
	return success(out)
}

func (v accessAPI) createJoinToken(r *http.Request, req api.CreateJoinToken) (answer, error) {
	lasts := cmp.Or(time.Duration(req.ExpiresInMS)*time.Millisecond, joinTokenExpiry)
	switch {
	case !meta.ValidNodeID(meta.NodeID(req.Node)):
		return answer{}, api.Errorf(failure.Invalid, "node %.64q is not a valid node id", req.Node)
	case req.ExpiresInMS < 0 || req.ExpiresInMS > maxJoinTokenExpiry.Milliseconds():
		return answer{}, api.Errorf(failure.Invalid, "expires_in_ms is %d, must be between 0 and %d", req.ExpiresInMS, maxJoinTokenExpiry.Milliseconds())
	}
	text, t, err := access.NewJoinToken(rand.Reader)
	if err != nil {
		return answer{}, err
	}
	now := time.Now()
	t.Node, t.Created, t.Expires = req.Node, now.UnixNano(), now.Add(lasts).UnixNano()
	if err := v.change(r, t.Node, access.Change{Verb: access.CreateJoinToken, Join: &t}); err != nil {
		return answer{}, err
	}
	out := apiJoinToken(&t, now)
	out.Secret = text
	return created(out)
}

func (v accessAPI) revokeJoinToken(r *http.Request) (answer, error) {
	id := r.PathValue("id")
	return done(v.change(r, "join token "+access.Redact(id), access.Change{Verb: access.RevokeJoinToken, ID: id}))
}

func (v accessAPI) requireJoinTokens(verb access.Verb) func(*http.Request) (answer, error) {
	return func(r *http.Request) (answer, error) {
		return then(v.change(r, "", access.Change{Verb: verb}), r, v.joinTokens)
	}
}

func apiJoinToken(t *access.JoinToken, now time.Time) api.JoinToken {
	out := api.JoinToken{ID: t.ID, Node: t.Node, State: "valid", Created: time.Unix(0, t.Created).UTC(), Expires: time.Unix(0, t.Expires).UTC()}
	switch {
	case t.Used != 0:
		out.State, out.Used = "used", new(time.Unix(0, t.Used).UTC())
	case t.Expired(now.UnixNano()):
		out.State = "expired"
	}
	return out
}

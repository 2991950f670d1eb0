package api

import (
	"context"
	"net/http"
	"time"
)

// JoinToken describes a token with which a node may join the cluster. Secret is the token itself,
// and is only set when it was created.
type JoinToken struct {
	ID      string     `json:"id"`
	Node    string     `json:"node"`  // the only node that may use it
	State   string     `json:"state"` // valid, used or expired
	Created time.Time  `json:"created"`
	Expires time.Time  `json:"expires"`
	Used    *time.Time `json:"used,omitempty"` // nil: not yet
	Secret  string     `json:"secret,omitempty"`
}

// JoinTokens are the join tokens of a cluster. Required reports whether a node needs one to join.
type JoinTokens struct {
	Required bool        `json:"required"`
	Tokens   []JoinToken `json:"tokens"`
}

// CreateJoinToken is a request to create a join token.
type CreateJoinToken struct {
	Node        string `json:"node"`
	ExpiresInMS int64  `json:"expires_in_ms,omitempty"` // 0: a day
}

// JoinTokens returns the join tokens, by node.
func (c Access) JoinTokens(ctx context.Context) (*JoinTokens, error) {
	return into[JoinTokens](ctx, c.t, path("access", "join-tokens"))
}

// CreateJoinToken creates a join token.
func (c Access) CreateJoinToken(ctx context.Context, req CreateJoinToken) (*JoinToken, error) {
	return post[JoinToken](ctx, c.t, path("access", "join-tokens"), req)
}

// RevokeJoinToken deletes a join token. A node that has joined with it remains a member.
func (c Access) RevokeJoinToken(ctx context.Context, id string) error {
	return c.t.send(ctx, http.MethodDelete, path("access", "join-tokens", id), nil, nil)
}

// RequireJoinTokens determines whether nodes need a join token to join the cluster.
func (c Access) RequireJoinTokens(ctx context.Context, required bool) (*JoinTokens, error) {
	verb := "waive"
	if required {
		verb = "require"
	}
	return post[JoinTokens](ctx, c.t, path("access", "join-tokens", verb), nil)
}

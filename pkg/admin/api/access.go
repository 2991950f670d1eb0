package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// PathAccess is the path below which users, tokens and rules are.
const PathAccess = "/v1/access"

// AccessStatus reports whether access control is on, and counts its objects.
type AccessStatus struct {
	Enabled bool `json:"enabled"`
	// Administrator reports whether there is an administrator with a credential that does not
	// expire: access control can be enabled.
	Administrator bool `json:"administrator"`
	Users         int  `json:"users"`
	Tokens        int  `json:"tokens"`
	// ClusterPortOpen reports whether any process that reaches the cluster port of the node that was asked
	// could join as a node: access control cannot be enabled.
	ClusterPortOpen bool `json:"cluster_port_open"`
	// ClusterSecretFile is the file, on the node that was asked, with the cluster secret that was created;
	// "": none was.
	ClusterSecretFile string `json:"cluster_secret_file"`
}

// EnableAccess switches access control on.
type EnableAccess struct {
	// NewClusterSecret closes an open cluster port first: it creates a secret that other nodes need.
	NewClusterSecret bool `json:"new_cluster_secret"`
}

// Rule grants a right. Topic and Channel are patterns in which * matches any characters.
type Rule struct {
	Right   string `json:"right"`             // publish, subscribe, manage, read or admin
	Topic   string `json:"topic,omitempty"`   // of publish, subscribe and manage
	Channel string `json:"channel,omitempty"` // of subscribe
}

// User is a user with the rights granted to it.
type User struct {
	Name         string   `json:"name"`
	HasPassword  bool     `json:"has_password"`
	Certificates []string `json:"certificates"` // names in client certificates that are this user's
	Rules        []Rule   `json:"rules"`
	Tokens       int      `json:"tokens"`
	// Revoked are the tokens that would become invalid; only in the answer of a dry run.
	Revoked []Token `json:"revoked,omitempty"`
}

// UserList is a list of users.
type UserList struct {
	Users []User `json:"users"`
}

// CreateUser is a request to create a user. Password is the only secret; "": none.
type CreateUser struct {
	Name         string   `json:"name"`
	Password     string   `json:"password,omitempty"`
	Certificates []string `json:"certificates,omitempty"`
	Rules        []Rule   `json:"rules,omitempty"`
}

// SetPassword is a request to change a user's password.
type SetPassword struct {
	Password string `json:"password"`
}

// Rules are rules to grant or to revoke.
type Rules struct {
	Rules []Rule `json:"rules"`
}

// CreateToken is a request to create a token of a user.
type CreateToken struct {
	Description string `json:"description,omitempty"`
	ExpiresInMS int64  `json:"expires_in_ms,omitempty"` // 0: it does not expire
}

// Token describes a token. Secret is the token itself, and is only set when it was created.
type Token struct {
	ID          string     `json:"id"`
	User        string     `json:"user"`
	Description string     `json:"description,omitempty"`
	Created     time.Time  `json:"created"`
	Expires     *time.Time `json:"expires,omitempty"` // nil: never
	Expired     bool       `json:"expired"`
	Secret      string     `json:"secret,omitempty"`
}

// TokenList is a list of tokens.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}

// Self describes the caller.
type Self struct {
	User    string `json:"user"` // "": unknown
	Enabled bool   `json:"enabled"`
	Rules   []Rule `json:"rules"`
}

// Access are the requests about users, tokens and rules. A Client has them.
type Access struct{ t *transport }

// Status reports whether access control is on.
func (c Access) Status(ctx context.Context) (*AccessStatus, error) {
	return into[AccessStatus](ctx, c.t, path("access"))
}

// Enable switches access control on.
func (c Access) Enable(ctx context.Context, req EnableAccess) (*AccessStatus, error) {
	return post[AccessStatus](ctx, c.t, path("access", "enable"), req)
}

// Disable switches access control off.
func (c Access) Disable(ctx context.Context) (*AccessStatus, error) {
	return post[AccessStatus](ctx, c.t, path("access", "disable"), nil)
}

// Self returns the user as whom the broker authenticates the caller.
func (c Access) Self(ctx context.Context) (*Self, error) {
	return into[Self](ctx, c.t, path("access", "self"))
}

// Users returns every user, by name.
func (c Access) Users(ctx context.Context) ([]User, error) {
	var out UserList
	err := c.t.get(ctx, path("access", "users"), nil, &out)
	return out.Users, err
}

// User returns one user.
func (c Access) User(ctx context.Context, name string) (*User, error) {
	return into[User](ctx, c.t, path("access", "users", name))
}

// CreateUser creates a user.
func (c Access) CreateUser(ctx context.Context, req CreateUser) (*User, error) {
	return post[User](ctx, c.t, path("access", "users"), req)
}

// DeleteUser deletes a user and its tokens.
func (c Access) DeleteUser(ctx context.Context, name string) error {
	return c.t.send(ctx, http.MethodDelete, path("access", "users", name), nil, nil)
}

// PlanDeleteUser returns the user that DeleteUser would delete, with the tokens that it would revoke.
func (c Access) PlanDeleteUser(ctx context.Context, name string) (*User, error) {
	return c.plan(ctx, path("access", "users", name))
}

// plan tries out a deletion.
func (c Access) plan(ctx context.Context, p string) (*User, error) {
	var out User
	if err := c.t.send(ctx, http.MethodDelete, p+"?dry_run=true", nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// SetPassword changes a user's password.
func (c Access) SetPassword(ctx context.Context, name, password string) (*User, error) {
	return post[User](ctx, c.t, path("access", "users", name, "password"), SetPassword{password})
}

// Grant gives a user rules. Those that it has stay.
func (c Access) Grant(ctx context.Context, user string, rules []Rule) (*User, error) {
	return post[User](ctx, c.t, path("access", "users", user, "grant"), Rules{rules})
}

// Revoke removes rules from a user, who must have all of them.
func (c Access) Revoke(ctx context.Context, user string, rules []Rule) (*User, error) {
	return post[User](ctx, c.t, path("access", "users", user, "revoke"), Rules{rules})
}

// Tokens returns the tokens of a user, by id; "": of all.
func (c Access) Tokens(ctx context.Context, user string) ([]Token, error) {
	q := url.Values{}
	if user != "" {
		q.Set("user", user)
	}
	var out TokenList
	err := c.t.get(ctx, path("access", "tokens"), q, &out)
	return out.Tokens, err
}

// CreateToken creates a token of a user.
func (c Access) CreateToken(ctx context.Context, user string, req CreateToken) (*Token, error) {
	return post[Token](ctx, c.t, path("access", "users", user, "tokens"), req)
}

// PlanRevokeToken returns the user of the token that RevokeToken would revoke.
func (c Access) PlanRevokeToken(ctx context.Context, id string) (*User, error) {
	return c.plan(ctx, path("access", "tokens", id))
}

// RevokeToken deletes a token.
func (c Access) RevokeToken(ctx context.Context, id string) error {
	return c.t.send(ctx, http.MethodDelete, path("access", "tokens", id), nil, nil)
}

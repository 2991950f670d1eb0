package access

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

// Reasons why a known token is refused.
var (
	ErrExpired       = fate.Refuse("token has expired")
	ErrJoinTokenUsed = fate.Refuse("join token was already used") // by another process
)

// Limits of a directory.
const (
	maxUsers        = 1000
	maxTokens       = 5000
	MaxRules        = 100 // of a user
	maxCertificates = 20  // of a user
	maxName         = 64  // bytes, of a user
	maxText         = 256 // bytes, of a description or a name in a certificate
)

// User is a user with credentials and rules. Callers must not change a User of a
// Directory.
type User struct {
	Name         string   `json:"name"`
	Password     string   `json:"password,omitempty"`     // as HashPassword returns it; "": none
	Certificates []string `json:"certificates,omitempty"` // names in certificates that are this user's
	Rules        []Rule   `json:"rules,omitempty"`
}

// Token is the stored part of a token. Callers must not change a Token of a
// Directory.
type Token struct {
	ID          string `json:"id"`
	User        string `json:"user"`
	Hash        string `json:"hash"`
	Description string `json:"description,omitempty"`
	Created     int64  `json:"created,omitempty"` // ns since 1970
	Expires     int64  `json:"expires,omitempty"` // likewise; 0: never
}

// Directory is the set of users, tokens and rules, and of join tokens of nodes. The zero value and nil have no user
// and are off. A Directory is immutable and safe for concurrent use.
type Directory struct {
	on     bool
	users  map[string]*User
	tokens map[string]*Token
	owners map[string]*User // by name in a certificate
	joins  map[string]*JoinToken

	joinTokensRequired bool
}

// On reports whether access control is on.
func (d *Directory) On() bool { return d != nil && d.on }

// User returns a user, or nil.
func (d *Directory) User(name string) *User {
	if d == nil {
		return nil
	}
	return d.users[name]
}

// Users returns the users by name.
func (d *Directory) Users() []*User {
	if d == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(d.users), func(a, b *User) int { return cmp.Compare(a.Name, b.Name) })
}

// Tokens returns the tokens by id.
func (d *Directory) Tokens() []*Token {
	if d == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(d.tokens), func(a, b *Token) int { return cmp.Compare(a.ID, b.ID) })
}

// Check returns the rule by which a user may do something; false: no rule grants it.
func (d *Directory) Check(user string, want Demand) (Rule, bool) {
	if u := d.User(user); u != nil {
		for _, r := range u.Rules {
			if r.Grants(want) {
				return r, true
			}
		}
	}
	return Rule{}, false
}

// May reports whether some rule gives a user a right: on a topic, or on any of its
// channels; with topic "", on any topic.
func (d *Directory) May(user string, right Right, topic string) bool {
	u := d.User(user)
	return u != nil && slices.ContainsFunc(u.Rules, func(r Rule) bool {
		return r.Right == Admin || r.Right == right && (topic == "" || r.Topic == "" || match(r.Topic, topic))
	})
}

// Token returns a token by its id, or nil.
func (d *Directory) Token(id string) *Token {
	if d == nil {
		return nil
	}
	return d.tokens[id]
}

// ByToken returns the token with a text, at a time in ns since 1970. It returns
// failure.TokenNotFound if there is none, also if only the id matches, and ErrExpired for an
// expired token.
func (d *Directory) ByToken(text string, now int64) (*Token, error) {
	id, ok := idOf(text)
	if !ok || d == nil {
		return nil, failure.TokenNotFound
	}
	t := d.tokens[id]
	switch {
	case t == nil || !t.is(text):
		return nil, failure.TokenNotFound
	case t.Expired(now):
		return nil, ErrExpired
	}
	return t, nil
}

// FirstEnd returns when the first of the tokens that are valid at now expires; zero: none
// expires.
func (d *Directory) FirstEnd(now time.Time) (first time.Time) {
	if d == nil {
		return first
	}
	for _, t := range d.tokens {
		if t.Expires == 0 || t.Expired(now.UnixNano()) {
			continue
		}
		if end := time.Unix(0, t.Expires); first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first
}

// Expired reports whether the token is no longer valid.
func (t *Token) Expired(now int64) bool { return t.Expires != 0 && now >= t.Expires }

// ByCertificate returns the user that a verified certificate with these names belongs
// to, or nil. A certificate whose names belong to several users belongs to none.
func (d *Directory) ByCertificate(names []string) (owner *User) {
	if d == nil {
		return nil
	}
	for _, name := range names {
		switch u := d.owners[name]; {
		case u == nil:
		case owner != nil && owner != u:
			return nil
		default:
			owner = u
		}
	}
	return owner
}

// copied returns a directory to change, which shares users and tokens with d.
func (d *Directory) copied() *Directory {
	n := &Directory{users: map[string]*User{}, tokens: map[string]*Token{}, owners: map[string]*User{}, joins: map[string]*JoinToken{}}
	if d != nil {
		n.on, n.joinTokensRequired = d.on, d.joinTokensRequired
		maps.Copy(n.joins, d.joins)
		maps.Copy(n.users, d.users)
		maps.Copy(n.tokens, d.tokens)
		maps.Copy(n.owners, d.owners)
	}
	return n
}

// put replaces a user.
func (d *Directory) put(u *User) error {
	if err := u.validate(); err != nil {
		return err
	}
	for _, name := range u.Certificates {
		if o := d.owners[name]; o != nil && o.Name != u.Name {
			return failure.CertificateTaken
		}
	}
	d.drop(u.Name)
	d.users[u.Name] = u
	for _, name := range u.Certificates {
		d.owners[name] = u
	}
	if len(d.users) > maxUsers {
		return failure.AccessLimit
	}
	return nil
}

// drop removes a user and leaves its tokens.
func (d *Directory) drop(name string) {
	delete(d.users, name)
	maps.DeleteFunc(d.owners, func(_ string, u *User) bool { return u.Name == name })
}

// putToken adds a token.
func (d *Directory) putToken(t *Token) error {
	if err := t.validate(); err != nil {
		return err
	}
	switch {
	case d.users[t.User] == nil:
		return failure.UserNotFound
	case d.tokens[t.ID] != nil:
		return failure.TokenExists
	case len(d.tokens) >= maxTokens:
		return failure.AccessLimit
	}
	d.tokens[t.ID] = t
	return nil
}

// safe reports whether an administrator can still switch access control off and
// change rules.
func (d *Directory) safe() bool { return !d.on || d.HasAdmin(true) }

// HasAdmin reports whether there is an administrator with a credential that does not expire. With
// certificates, names in certificates count as such a credential.
func (d *Directory) HasAdmin(certificates bool) bool {
	if d == nil {
		return false
	}
	lasting := map[string]bool{}
	for _, t := range d.tokens {
		lasting[t.User] = lasting[t.User] || t.Expires == 0
	}
	for name, u := range d.users {
		admin := slices.ContainsFunc(u.Rules, func(r Rule) bool { return r.Right == Admin })
		if admin && (u.Password != "" || certificates && len(u.Certificates) > 0 || lasting[name]) {
			return true
		}
	}
	return false
}

// Stored is the stored form of a directory.
type Stored struct {
	On     bool     `json:"on,omitempty"`
	Users  []*User  `json:"users,omitempty"`
	Tokens []*Token `json:"tokens,omitempty"`

	JoinTokensRequired bool         `json:"join_tokens_required,omitempty"`
	JoinTokens         []*JoinToken `json:"join_tokens,omitempty"`
}

// Store returns the form from which Restore creates the directory again.
func (d *Directory) Store() Stored {
	return Stored{d.On(), d.Users(), d.Tokens(), d.JoinTokensRequired(), d.JoinTokens()}
}

// errOrder is the error of a stored form that Store cannot have returned.
var errOrder = errors.New("users or tokens out of order")

// Restore returns the directory that was stored. A form that Store cannot have
// returned is an error.
func Restore(s Stored) (*Directory, error) {
	byName := func(a, b *User) int { return cmp.Compare(a.Name, b.Name) }
	byID := func(a, b *Token) int { return cmp.Compare(a.ID, b.ID) }
	if slices.Contains(s.Users, nil) || slices.Contains(s.Tokens, nil) || slices.Contains(s.JoinTokens, nil) ||
		!slices.IsSortedFunc(s.Users, byName) || !slices.IsSortedFunc(s.Tokens, byID) || !slices.IsSortedFunc(s.JoinTokens, byNode) {
		return nil, errOrder
	}
	d := (*Directory)(nil).copied()
	for _, u := range s.Users {
		if d.users[u.Name] != nil {
			return nil, failure.UserExists
		}
		if err := d.put(u); err != nil {
			return nil, err
		}
	}
	for _, t := range s.Tokens {
		if err := d.putToken(t); err != nil {
			return nil, err
		}
	}
	d.joinTokensRequired = s.JoinTokensRequired
	for _, t := range s.JoinTokens {
		if err := d.putJoin(t); err != nil {
			return nil, err
		}
	}
	if d.on = s.On; !d.safe() {
		return nil, failure.LastAdmin
	}
	return d, nil
}

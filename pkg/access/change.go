package access

import (
	"fmt"
	"maps"
	"slices"

	"github.com/brokerd/brokerd/pkg/failure"
)

// Verb is the kind of a Change.
type Verb string

// The verbs, and the fields of a Change that each needs.
const (
	CreateUser  Verb = "create-user"  // User, and optionally Password, Certificates and Rules
	DeleteUser  Verb = "delete-user"  // User, which also deletes its tokens
	SetPassword Verb = "set-password" // User, Password
	CreateToken Verb = "create-token" // Token
	RevokeToken Verb = "revoke-token" // ID
	Grant       Verb = "grant"        // User, Rules; existing ones stay
	Revoke      Verb = "revoke"       // User, Rules, all of which it must have
	Enable      Verb = "enable"
	Disable     Verb = "disable"

	CreateJoinToken   Verb = "create-join-token" // Join
	UseJoinToken      Verb = "use-join-token"    // of Join: ID, Node, Used and Process
	RevokeJoinToken   Verb = "revoke-join-token" // ID
	RequireJoinTokens Verb = "require-join-tokens"
	WaiveJoinTokens   Verb = "waive-join-tokens" // nodes join without
)

// Change is one change of a directory.
type Change struct {
	Verb         Verb     `json:"verb"`
	User         string   `json:"user,omitempty"`
	Password     string   `json:"password,omitempty"` // as HashPassword returns it
	Certificates []string `json:"certificates,omitempty"`
	Rules        []Rule   `json:"rules,omitempty"`
	Token        *Token   `json:"token,omitempty"`
	ID           string   `json:"id,omitempty"` // of a token
	By           string   `json:"by,omitempty"` // who changes it, for the event; "": unknown

	Join *JoinToken `json:"join,omitempty"`
}

// String describes the change without its credentials.
func (c Change) String() string {
	text := string(c.Verb)
	if c.User != "" {
		text += " " + c.User
	}
	if c.Token != nil {
		text += " " + c.Token.ID + " of " + c.Token.User
	}
	if c.Join != nil {
		text += " " + c.Join.ID + " for node " + c.Join.Node
	}
	if c.ID != "" {
		text += " " + c.ID
	}
	if c.By != "" {
		text += " by " + c.By
	}
	for _, r := range c.Rules {
		text += ", " + r.String()
	}
	return text
}

// Takes reports whether the change may deny what was permitted before.
func (c Change) Takes() bool {
	switch c.Verb {
	case Enable, DeleteUser, SetPassword, Revoke, RevokeToken, RevokeJoinToken, RequireJoinTokens:
		return true
	case CreateUser, CreateToken, Grant, Disable, CreateJoinToken, UseJoinToken, WaiveJoinTokens:
	}
	return false
}

// Of returns the user or the node that the change is about; "": it names none.
func (c Change) Of() string {
	if c.Token != nil {
		return c.Token.User
	}
	if c.Join != nil {
		return c.Join.Node
	}
	return c.User
}

// Validate checks what can be checked without a directory.
func (c Change) Validate() error {
	if len(c.By) > maxText {
		return fmt.Errorf("%w: actor name of %d bytes", failure.InvalidAccess, len(c.By))
	}
	switch c.Verb {
	case CreateUser:
		return c.user().validate()
	case SetPassword:
		if _, _, ok := parsePassword(c.Password); !ok {
			return fmt.Errorf("%w: password is not hashed", failure.InvalidAccess)
		}
	case CreateToken:
		if c.Token == nil {
			return fmt.Errorf("%w: no token to create", failure.InvalidAccess)
		}
		return c.Token.validate()
	case Grant, Revoke:
		if len(c.Rules) == 0 {
			return fmt.Errorf("%w: no rule to %s", failure.InvalidAccess, c.Verb)
		}
		return validRules(c.Rules)
	case CreateJoinToken:
		if c.Join == nil || c.Join.Used != 0 {
			return fmt.Errorf("%w: no join token to create", failure.InvalidAccess)
		}
		return c.Join.validate()
	case UseJoinToken:
		if c.Join == nil || c.Join.Used <= 0 || c.Join.Process == 0 {
			return fmt.Errorf("%w: no use of a join token", failure.InvalidAccess)
		}
	case DeleteUser, RevokeToken, Enable, Disable, RevokeJoinToken, RequireJoinTokens, WaiveJoinTokens:
	default:
		return fmt.Errorf("%w: unknown change %.40q", failure.InvalidAccess, c.Verb)
	}
	return nil
}

func (c Change) user() *User { return &User{c.User, c.Password, c.Certificates, c.Rules} }

// Apply returns the directory after a change, or an error if the change is
// refused.
func (d *Directory) Apply(c Change) (*Directory, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	n := d.copied()
	if err := n.apply(c); err != nil {
		return nil, err
	}
	if !n.safe() {
		return nil, failure.LastAdmin
	}
	return n, nil
}

func (d *Directory) apply(c Change) error {
	switch c.Verb {
	case CreateUser:
		if d.users[c.User] != nil {
			return failure.UserExists
		}
		return d.put(c.user())
	case CreateToken:
		return d.putToken(c.Token)
	case RevokeToken:
		if d.tokens[c.ID] == nil {
			return failure.TokenNotFound
		}
		delete(d.tokens, c.ID)
		return nil
	case Enable, Disable:
		d.on = c.Verb == Enable
		return nil
	case CreateJoinToken, UseJoinToken, RevokeJoinToken, RequireJoinTokens, WaiveJoinTokens:
		return d.changeJoin(c)
	case DeleteUser, SetPassword, Grant, Revoke:
	}
	was := d.users[c.User]
	if was == nil {
		return failure.UserNotFound
	}
	u := *was
	switch c.Verb {
	case DeleteUser:
		d.drop(c.User)
		maps.DeleteFunc(d.tokens, func(_ string, t *Token) bool { return t.User == c.User })
		return nil
	case SetPassword:
		u.Password = c.Password
	case Grant:
		u.Rules = slices.Clone(u.Rules)
		for _, r := range c.Rules {
			if !slices.Contains(u.Rules, r) {
				u.Rules = append(u.Rules, r)
			}
		}
	case Revoke:
		u.Rules = slices.Clone(u.Rules)
		for _, r := range c.Rules {
			i := slices.Index(u.Rules, r)
			if i < 0 {
				return fmt.Errorf("%w: %s", failure.RuleNotFound, r)
			}
			u.Rules = slices.Delete(u.Rules, i, i+1)
		}
	default: // done above
	}
	return d.put(&u)
}

func (u *User) validate() error {
	if err := validUserName(u.Name); err != nil {
		return err
	}
	if _, _, ok := parsePassword(u.Password); !ok && u.Password != "" {
		return fmt.Errorf("%w: password is not hashed", failure.InvalidAccess)
	}
	if len(u.Certificates) > maxCertificates {
		return fmt.Errorf("%w: %d certificate names", failure.AccessLimit, len(u.Certificates))
	}
	for i, name := range u.Certificates {
		if name == "" || len(name) > maxText || slices.Contains(u.Certificates[:i], name) {
			return fmt.Errorf("%w: certificate name of %d bytes, or given twice", failure.InvalidAccess, len(name))
		}
	}
	for i, r := range u.Rules {
		if slices.Contains(u.Rules[:i], r) { // a revocation would leave one of them
			return fmt.Errorf("%w: rule %s is given twice", failure.InvalidAccess, r)
		}
	}
	return validRules(u.Rules)
}

func validUserName(name string) error {
	for i := range len(name) {
		if !plain(name[i]) && name[i] != '@' {
			return fmt.Errorf("%w: user name %.64q, must have a-z A-Z 0-9 . _ - @ only", failure.InvalidAccess, name)
		}
	}
	if name == "" || len(name) > maxName {
		return fmt.Errorf("%w: user name of %d bytes, must have 1 to %d", failure.InvalidAccess, len(name), maxName)
	}
	return nil
}

func validRules(rules []Rule) error {
	if len(rules) > MaxRules {
		return fmt.Errorf("%w: %d rules of a user, over %d", failure.AccessLimit, len(rules), MaxRules)
	}
	for _, r := range rules {
		if err := r.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (t *Token) validate() error {
	if len(t.ID) != 2*tokenID || !isHex(t.ID) || len(t.Hash) != 64 || !isHex(t.Hash) {
		return fmt.Errorf("%w: token id or hash", failure.InvalidAccess)
	}
	if err := validUserName(t.User); err != nil {
		return err
	}
	if len(t.Description) > maxText || t.Created < 0 || t.Expires < 0 {
		return fmt.Errorf("%w: description of %d bytes, created at %d, expires at %d", failure.InvalidAccess, len(t.Description), t.Created, t.Expires)
	}
	return nil
}

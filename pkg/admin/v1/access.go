package v1

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"time"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/web"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/policy"
)

// Accesses reads and changes users, tokens and rules: an operate.Access.
type Accesses interface {
	Directory() *access.Directory
	Administrator() bool
	PortOpen() bool
	ClosePort() (file string, err error)
	Change(ctx context.Context, c access.Change) error
}

// Access holds the dependencies of the endpoints of users, tokens and rules. All are required.
type Access struct {
	Accesses
	// Hashing calls a function that hashes a password when there is room for it.
	Hashing func(ctx context.Context, f func()) error
}

// maxExpiry is how long a token may last that expires.
const maxExpiry = 100 * 365 * 24 * time.Hour

// accessAPI serves users, tokens and rules. Data that may contain credentials is neither logged
// nor recorded in the audit log; see web.Note.
type accessAPI struct{ of Access }

func (v accessAPI) route(t *API) {
	t.handle("GET /v1/access", v.status)
	t.handle("POST /v1/access/enable", with(readOptionalJSON, v.enable))
	t.handle("POST /v1/access/disable", v.disable)
	t.handle("GET /v1/access/self", v.self)
	t.handle("GET /v1/access/users", v.users)
	t.handle("POST /v1/access/users", with(readSecret, v.createUser))
	t.handle("GET /v1/access/users/{user}", v.user)
	t.handleTry("DELETE /v1/access/users/{user}", v.deleteUser)
	t.handle("POST /v1/access/users/{user}/password", with(readSecret, v.setPassword))
	t.handle("POST /v1/access/users/{user}/grant", v.rules(access.Grant))
	t.handle("POST /v1/access/users/{user}/revoke", v.rules(access.Revoke))
	t.handle("POST /v1/access/users/{user}/tokens", with(readOptionalJSON, v.createToken))
	t.handle("GET /v1/access/tokens", v.tokens)
	t.handleTry("DELETE /v1/access/tokens/{id}", v.revokeToken)
	v.routeJoins(t)
}

// change performs a change on behalf of the caller, and notes it for the audit log.
func (v accessAPI) change(r *http.Request, object string, c access.Change) error {
	act := web.ActOf(r.Context())
	act.Object, act.Text = object, access.Redact(c.String())
	c.By = guard.CallerOf(r.Context()).Name()
	return v.of.Change(r.Context(), c)
}

func (v accessAPI) status(*http.Request) (answer, error) { return success(v.statusNow()) }

func (v accessAPI) statusNow() api.AccessStatus {
	d := v.of.Directory()
	return api.AccessStatus{Enabled: d.On(), Administrator: v.of.Administrator(), Users: len(d.Users()), Tokens: len(d.Tokens()), ClusterPortOpen: v.of.PortOpen()}
}

// enable switches access control on, and closes the cluster port before if that is asked for.
func (v accessAPI) enable(r *http.Request, req api.EnableAccess) (answer, error) {
	file := ""
	if req.NewClusterSecret {
		var err error
		if file, err = v.of.ClosePort(); err != nil {
			return answer{}, err
		}
	}
	if err := v.change(r, "", access.Change{Verb: access.Enable}); err != nil {
		return answer{}, err
	}
	out := v.statusNow()
	out.ClusterSecretFile = file
	return success(out)
}

func (v accessAPI) disable(r *http.Request) (answer, error) {
	return then(v.change(r, "", access.Change{Verb: access.Disable}), r, v.status)
}

func (v accessAPI) self(r *http.Request) (answer, error) {
	d, name := v.of.Directory(), guard.CallerOf(r.Context()).Name()
	out := api.Self{User: name, Enabled: d.On(), Rules: []api.Rule{}}
	if u := d.User(name); u != nil {
		out.Rules = apiRules(u.Rules)
	}
	return success(out)
}

func (v accessAPI) users(*http.Request) (answer, error) {
	d := v.of.Directory()
	list := api.UserList{Users: []api.User{}}
	for _, u := range d.Users() {
		list.Users = append(list.Users, apiUser(d, u))
	}
	return success(list)
}

// aUser returns a user, who may have been deleted.
func (v accessAPI) aUser(name string, of func(any) (answer, error)) (answer, error) {
	d := v.of.Directory()
	u := d.User(name)
	if u == nil {
		return answer{}, failure.UserNotFound
	}
	return of(apiUser(d, u))
}

func (v accessAPI) user(r *http.Request) (answer, error) {
	return v.aUser(r.PathValue("user"), success)
}

func (v accessAPI) createUser(r *http.Request, req api.CreateUser) (answer, error) {
	stored, err := v.hash(r.Context(), req.Password)
	if err != nil {
		return answer{}, err
	}
	c := access.Change{Verb: access.CreateUser, User: req.Name, Password: stored, Certificates: req.Certificates, Rules: rulesOf(req.Rules)}
	if err := v.change(r, "user "+req.Name, c); err != nil {
		return answer{}, err
	}
	return v.aUser(req.Name, created)
}

// hash returns the stored form of a password; "" if there is none.
func (v accessAPI) hash(ctx context.Context, password string) (stored string, err error) {
	if password == "" {
		return "", nil
	}
	if busy := v.of.Hashing(ctx, func() { stored, err = access.HashPassword(password, rand.Reader) }); busy != nil {
		return "", busy
	}
	return stored, err
}

func (v accessAPI) deleteUser(r *http.Request) (answer, error) {
	name := r.PathValue("user")
	return v.remove(r, "user "+name, access.Change{Verb: access.DeleteUser, User: name})
}

func (v accessAPI) setPassword(r *http.Request, req api.SetPassword) (answer, error) {
	name := r.PathValue("user")
	if v.of.Directory().User(name) == nil {
		return answer{}, failure.UserNotFound
	}
	if req.Password == "" {
		return answer{}, api.Errorf(failure.Invalid, "password is empty")
	}
	stored, err := v.hash(r.Context(), req.Password)
	if err != nil {
		return answer{}, err
	}
	if err := v.change(r, "user "+name, access.Change{Verb: access.SetPassword, User: name, Password: stored}); err != nil {
		return answer{}, err
	}
	return v.aUser(name, success)
}

// readSecret reads a body that may hold a secret: an error does not repeat it.
func readSecret(r *http.Request, into any) error {
	err := readJSON(r, into)
	if err != nil && apiError(err).Code == failure.Invalid {
		return api.Errorf(failure.Invalid, "request body is not the JSON that is expected")
	}
	return err
}

func (v accessAPI) rules(verb access.Verb) func(*http.Request) (answer, error) {
	return with(readJSON, func(r *http.Request, req api.Rules) (answer, error) {
		name := r.PathValue("user")
		if err := v.change(r, "user "+name, access.Change{Verb: verb, User: name, Rules: rulesOf(req.Rules)}); err != nil {
			return answer{}, err
		}
		return v.aUser(name, success)
	})
}

func (v accessAPI) createToken(r *http.Request, req api.CreateToken) (answer, error) {
	if req.ExpiresInMS < 0 || req.ExpiresInMS > maxExpiry.Milliseconds() {
		return answer{}, api.Errorf(failure.Invalid, "expires_in_ms is %d, must be between 0 and %d", req.ExpiresInMS, maxExpiry.Milliseconds())
	}
	text, t, err := access.NewToken(rand.Reader)
	if err != nil {
		return answer{}, err
	}
	now := time.Now()
	t.User, t.Description, t.Created = r.PathValue("user"), req.Description, now.UnixNano()
	if req.ExpiresInMS > 0 {
		t.Expires = now.Add(time.Duration(req.ExpiresInMS) * time.Millisecond).UnixNano()
	}
	if err := v.change(r, "user "+t.User, access.Change{Verb: access.CreateToken, Token: &t}); err != nil {
		return answer{}, err
	}
	out := apiToken(&t, now)
	out.Secret = text
	return created(out)
}

func (v accessAPI) tokens(r *http.Request) (answer, error) {
	list, of, now := api.TokenList{Tokens: []api.Token{}}, r.URL.Query().Get("user"), time.Now()
	if of != "" && v.of.Directory().User(of) == nil {
		return answer{}, failure.UserNotFound
	}
	for _, t := range v.of.Directory().Tokens() {
		if of == "" || t.User == of {
			list.Tokens = append(list.Tokens, apiToken(t, now))
		}
	}
	return success(list)
}

func (v accessAPI) revokeToken(r *http.Request) (answer, error) {
	id := r.PathValue("id")
	return v.remove(r, "token "+access.Redact(id), access.Change{Verb: access.RevokeToken, ID: id})
}

// remove deletes a user or revokes a token, or only says what would go.
func (v accessAPI) remove(r *http.Request, object string, c access.Change) (answer, error) {
	if dry, err := isDryRun(r); err != nil {
		return answer{}, err
	} else if !dry {
		return done(v.change(r, object, c))
	}
	d := v.of.Directory()
	after, err := d.Apply(c)
	if err != nil {
		return answer{}, err
	}
	left := after.Tokens()
	var gone []*access.Token
	name := c.User
	for _, t := range d.Tokens() {
		if !slices.ContainsFunc(left, func(l *access.Token) bool { return l.ID == t.ID }) {
			gone, name = append(gone, t), t.User
		}
	}
	u := d.User(name)
	if u == nil {
		return answer{}, failure.UserNotFound
	}
	out, now := apiUser(d, u), time.Now()
	for _, t := range gone {
		out.Revoked = append(out.Revoked, apiToken(t, now))
	}
	return success(out)
}

func apiToken(t *access.Token, now time.Time) api.Token {
	out := api.Token{ID: t.ID, User: t.User, Description: t.Description, Created: time.Unix(0, t.Created).UTC(), Expired: t.Expired(now.UnixNano())}
	if t.Expires != 0 {
		out.Expires = new(time.Unix(0, t.Expires).UTC())
	}
	return out
}

func apiUser(d *access.Directory, u *access.User) api.User {
	out := api.User{Name: u.Name, HasPassword: u.Password != "", Certificates: append([]string{}, u.Certificates...), Rules: apiRules(u.Rules)}
	for _, t := range d.Tokens() {
		if t.User == u.Name {
			out.Tokens++
		}
	}
	return out
}

func apiRules(rules []access.Rule) []api.Rule {
	out := []api.Rule{}
	for _, r := range rules {
		out = append(out, api.Rule{Right: string(r.Right), Topic: r.Topic, Channel: r.Channel})
	}
	return out
}

func rulesOf(rules []api.Rule) []access.Rule {
	var out []access.Rule
	for _, r := range rules {
		out = append(out, access.Rule{Right: access.Right(r.Right), Topic: r.Topic, Channel: r.Channel})
	}
	return out
}

// permitLetters refuses a caller who would have messages written to a topic to which he may not
// publish, as dead letters of a channel that he manages. levels are the policy that he changes
// with patch, and the policies that apply, in order, for its unset settings. The right to manage
// the default dead-letter topic suffices instead; for all channels of a topic, "*", that of every
// one. A choice of dead letters is checked even if nothing limits the attempts yet, because
// another level may do so later.
func permitLetters(r *http.Request, topic, channel string, patch policy.Patch, levels ...policy.Policy) error {
	if patch == (policy.Patch{Backoff: patch.Backoff, Rate: patch.Rate}) {
		return nil
	}
	own := patch.Apply(levels[0])
	caller, p := guard.CallerOf(r.Context()), policy.Effective(append([]policy.Policy{own}, levels[1:]...)...)
	chosen := own.OnExhausted == policy.DeadLetter || own.OnExpired == policy.DeadLetter
	if !p.HasDeadLetters() && !chosen && (patch.DeadLetterTopic == nil || *patch.DeadLetterTopic == "") {
		return nil
	}
	to := meta.DeadLetterTopic(p, topic, channel)
	err := caller.Allow(access.Demand{Right: access.Publish, Topic: to})
	if err != nil && p.DeadLetterTopic == "" && caller.Allow(access.Demand{Right: access.Manage, Topic: to}) == nil {
		return nil
	}
	return err
}

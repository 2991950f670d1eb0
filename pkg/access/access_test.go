package access_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	mathrand "math/rand/v2"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/brokerd/brokerd/internal/testrand"
	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
)

// hashed is a stored password, computed once because hashing is slow.
const hashed = "argon2id-19456-2-1$AAECAwQFBgcICQoLDA0ODw$7FfSFuEnL0W/xLUUE2tnTTIE7HEwzLQGVEdcAt0p8OY"

func apply(t *testing.T, d *access.Directory, changes ...access.Change) *access.Directory {
	t.Helper()
	for _, c := range changes {
		n, err := d.Apply(c)
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		d = n
	}
	return d
}

func user(name string, rules ...access.Rule) access.Change {
	return access.Change{Verb: access.CreateUser, User: name, Rules: rules}
}

func TestRuleGrantsOnlyItsRights(t *testing.T) {
	pub := func(topic string) access.Demand { return access.Demand{Right: access.Publish, Topic: topic} }
	sub := func(topic, channel string) access.Demand {
		return access.Demand{Right: access.Subscribe, Topic: topic, Channel: channel}
	}
	manage := access.Demand{Right: access.Manage, Topic: "orders"}
	read, admin := access.Demand{Right: access.Read}, access.Demand{Right: access.Admin}
	for _, test := range []struct {
		rule access.Rule
		want access.Demand
		may  bool
	}{
		{access.Rule{Right: access.Publish, Topic: "orders"}, pub("orders"), true},
		{access.Rule{Right: access.Publish, Topic: "orders"}, pub("orders2"), false},
		{access.Rule{Right: access.Publish, Topic: "orders"}, pub("my-orders"), false},
		{access.Rule{Right: access.Publish, Topic: "orders"}, sub("orders", "c"), false},
		{access.Rule{Right: access.Publish, Topic: "orders"}, manage, false},
		{access.Rule{Right: access.Publish, Topic: "*"}, pub(""), false},
		{access.Rule{Right: access.Publish, Topic: "*"}, pub("orders"), true},
		{access.Rule{Right: access.Publish, Topic: "orders.*"}, pub("orders."), true},
		{access.Rule{Right: access.Publish, Topic: "orders.*"}, pub("orders"), false},
		{access.Rule{Right: access.Publish, Topic: "*.eu.*"}, pub("a.eu.b"), true},
		{access.Rule{Right: access.Publish, Topic: "*#ephemeral"}, pub("t#ephemeral"), true},
		{access.Rule{Right: access.Subscribe, Topic: "orders", Channel: "bill"}, sub("orders", "bill"), true},
		{access.Rule{Right: access.Subscribe, Topic: "orders", Channel: "bill"}, sub("orders", "ship"), false},
		{access.Rule{Right: access.Subscribe, Topic: "orders", Channel: "bill"}, sub("refunds", "bill"), false},
		{access.Rule{Right: access.Subscribe, Topic: "orders", Channel: "*"}, sub("orders", ""), false},
		{access.Rule{Right: access.Subscribe, Topic: "orders", Channel: "*"}, pub("orders"), false},
		{access.Rule{Right: access.Manage, Topic: "orders"}, manage, true},
		{access.Rule{Right: access.Manage, Topic: "*"}, pub("orders"), false},
		{access.Rule{Right: access.Manage, Topic: "*"}, read, false},
		{access.Rule{Right: access.Read}, read, true},
		{access.Rule{Right: access.Read}, admin, false},
		{access.Rule{Right: access.Read}, pub("orders"), false},
		{access.Rule{Right: access.Admin}, admin, true},
		{access.Rule{Right: access.Admin}, read, true},
		{access.Rule{Right: access.Admin}, sub("orders", "bill"), true},
	} {
		d := apply(t, nil, user("u", test.rule), user("other"))
		by, may := d.Check("u", test.want)
		if may != test.may || may && by != test.rule {
			t.Errorf("%s, asked for %+v: %v by %s", test.rule, test.want, may, by)
		}
		for _, name := range []string{"other", "unknown", ""} {
			if _, may := d.Check(name, test.want); may {
				t.Errorf("%s is granted to %q", test.rule, name)
			}
		}
	}
}

func TestPatternsMatchAsThoseOfPathsDo(t *testing.T) {
	r := testrand.New(t)
	text := func(of string, most int) string {
		b := make([]byte, 1+r.IntN(most))
		for i := range b {
			b[i] = of[r.IntN(len(of))]
		}
		return string(b)
	}
	for range 20_000 {
		pattern, name := text("ab*", 8), text("ab", 10)
		d := apply(t, nil, user("u", access.Rule{Right: access.Publish, Topic: pattern}))
		want, err := path.Match(pattern, name)
		if _, got := d.Check("u", access.Demand{Right: access.Publish, Topic: name}); err != nil || got != want {
			t.Fatalf("pattern %s, name %s: %v, want %v, %v", pattern, name, got, want, err)
		}
	}
}

func TestInvalidAccessChangesAreRefused(t *testing.T) {
	_, token, err := access.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	token.User = "root"
	d := apply(t, nil, user("root", access.Rule{Right: access.Admin}), access.Change{Verb: access.CreateUser, User: "cert", Certificates: []string{"CN=a"}},
		access.Change{Verb: access.CreateToken, Token: &token})
	other := token
	other.ID, other.User = strings.Repeat("a", 16), "unknown"
	grant := func(r access.Rule) access.Change {
		return access.Change{Verb: access.Grant, User: "root", Rules: []access.Rule{r}}
	}
	many := make([]access.Rule, access.MaxRules+1)
	for i := range many {
		many[i] = access.Rule{Right: access.Read}
	}
	for name, test := range map[string]struct {
		change access.Change
		want   error
	}{
		"no verb":                 {access.Change{}, failure.InvalidAccess},
		"user without a name":     {user(""), failure.InvalidAccess},
		"odd name":                {user("a b"), failure.InvalidAccess},
		"long name":               {user(strings.Repeat("a", 65)), failure.InvalidAccess},
		"user twice":              {user("root"), failure.UserExists},
		"plain password":          {access.Change{Verb: access.SetPassword, User: "root", Password: "secret-text"}, failure.InvalidAccess},
		"plain password at first": {access.Change{Verb: access.CreateUser, User: "x", Password: "secret-text"}, failure.InvalidAccess},
		"password of no user":     {access.Change{Verb: access.SetPassword, User: "x", Password: hashed}, failure.UserNotFound},
		"delete no user":          {access.Change{Verb: access.DeleteUser, User: "x"}, failure.UserNotFound},
		"grant nothing":           {access.Change{Verb: access.Grant, User: "root"}, failure.InvalidAccess},
		"too many rules":          {access.Change{Verb: access.Grant, User: "root", Rules: many}, failure.AccessLimit},
		"a rule twice":            {user("x", access.Rule{Right: access.Read}, access.Rule{Right: access.Read}), failure.InvalidAccess},
		"revoke what is not":      {access.Change{Verb: access.Revoke, User: "root", Rules: []access.Rule{{Right: access.Read}}}, failure.RuleNotFound},
		"unknown right":           {grant(access.Rule{Right: "fly"}), failure.InvalidAccess},
		"publish anywhere":        {grant(access.Rule{Right: access.Publish}), failure.InvalidAccess},
		"publish to a channel":    {grant(access.Rule{Right: access.Publish, Topic: "t", Channel: "c"}), failure.InvalidAccess},
		"subscribe no channel":    {grant(access.Rule{Right: access.Subscribe, Topic: "t"}), failure.InvalidAccess},
		"read a topic":            {grant(access.Rule{Right: access.Read, Topic: "t"}), failure.InvalidAccess},
		"odd pattern":             {grant(access.Rule{Right: access.Publish, Topic: "a/b"}), failure.InvalidAccess},
		"long pattern":            {grant(access.Rule{Right: access.Publish, Topic: strings.Repeat("a", 65)}), failure.InvalidAccess},
		"no token":                {access.Change{Verb: access.CreateToken}, failure.InvalidAccess},
		"token twice":             {access.Change{Verb: access.CreateToken, Token: &token}, failure.TokenExists},
		"token of no user":        {access.Change{Verb: access.CreateToken, Token: &other}, failure.UserNotFound},
		"token without a hash":    {access.Change{Verb: access.CreateToken, Token: &access.Token{ID: other.ID, User: "root"}}, failure.InvalidAccess},
		"revoke no token":         {access.Change{Verb: access.RevokeToken, ID: "x"}, failure.TokenNotFound},
		"certificate of another":  {access.Change{Verb: access.CreateUser, User: "x", Certificates: []string{"CN=a"}}, failure.CertificateTaken},
		"certificate twice":       {access.Change{Verb: access.CreateUser, User: "x", Certificates: []string{"CN=b", "CN=b"}}, failure.InvalidAccess},
	} {
		t.Run(name, func(t *testing.T) {
			before := d.Store()
			n, err := d.Apply(test.change)
			if n != nil || !errors.Is(err, test.want) || fate.Of(err) != fate.Refused {
				t.Errorf("%v, %v", n, err)
			}
			if !reflect.DeepEqual(before, d.Store()) {
				t.Error("it has changed something")
			}
		})
	}
}

func TestAdministratorCanAlwaysSwitchItOff(t *testing.T) {
	admin := user("root", access.Rule{Right: access.Admin})
	enable := access.Change{Verb: access.Enable}
	lasting := access.Token{ID: strings.Repeat("a", 16), Hash: strings.Repeat("0", 64), User: "root"}
	passing := lasting
	passing.Expires = 1
	for name, with := range map[string][]access.Change{
		"no user":               {},
		"no credential":         {admin},
		"a token that expires":  {admin, {Verb: access.CreateToken, Token: &passing}},
		"a user without rights": {{Verb: access.CreateUser, User: "u", Password: hashed}},
	} {
		d := apply(t, nil, with...)
		if n, err := d.Apply(enable); n != nil || !errors.Is(err, failure.LastAdmin) || d.On() {
			t.Errorf("%s: %v, on %v", name, err, n.On())
		}
	}
	for name, test := range map[string]struct {
		with []access.Change
		last access.Change
	}{
		"token":       {[]access.Change{admin, {Verb: access.CreateToken, Token: &lasting}}, access.Change{Verb: access.RevokeToken, ID: lasting.ID}},
		"password":    {[]access.Change{admin, {Verb: access.SetPassword, User: "root", Password: hashed}}, access.Change{Verb: access.DeleteUser, User: "root"}},
		"certificate": {[]access.Change{{Verb: access.CreateUser, User: "root", Certificates: []string{"CN=a"}, Rules: []access.Rule{{Right: access.Admin}}}}, access.Change{Verb: access.Revoke, User: "root", Rules: []access.Rule{{Right: access.Admin}}}},
	} {
		d := apply(t, apply(t, nil, test.with...), enable)
		if n, err := d.Apply(test.last); n != nil || !errors.Is(err, failure.LastAdmin) {
			t.Errorf("%s: %v", name, err)
		}
		if d = apply(t, d, access.Change{Verb: access.Disable}, test.last); d.On() {
			t.Errorf("%s: still on", name)
		}
	}
}

func TestTokenIsValidUntilExpiry(t *testing.T) {
	text, token, err := access.NewToken(rand.Reader)
	if err != nil || !access.IsToken(text) || strings.Contains(token.Hash, text) {
		t.Fatalf("%q, %+v, %v", text, token, err)
	}
	token.User, token.Expires = "u", 100
	d := apply(t, nil, user("u"), access.Change{Verb: access.CreateToken, Token: &token})
	if found, err := d.ByToken(text, 99); err != nil || found.User != "u" {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err := d.ByToken(text, 100); found != nil || !errors.Is(err, access.ErrExpired) {
		t.Errorf("expired: %+v, %v", found, err)
	}
	flipped := []byte(text)
	flipped[len(text)-2] ^= 1
	for _, wrong := range []string{"", "brk_", text[:len(text)-1], text + "a", string(flipped), strings.ToUpper(text), " " + text} {
		if found, err := d.ByToken(wrong, 99); found != nil || !errors.Is(err, failure.TokenNotFound) {
			t.Errorf("%q: %+v, %v", wrong, found, err)
		}
	}
	for _, change := range []access.Change{{Verb: access.RevokeToken, ID: token.ID}, {Verb: access.DeleteUser, User: "u"}} {
		if found, err := apply(t, d, change).ByToken(text, 99); found != nil || !errors.Is(err, failure.TokenNotFound) {
			t.Errorf("after %s: %+v, %v", change, found, err)
		}
	}
	// A recreated user with the same name does not get the rules and credentials of the first one.
	again := apply(t, d, access.Change{Verb: access.DeleteUser, User: "u"}, user("u"))
	if found, _ := again.ByToken(text, 99); found != nil {
		t.Error("a token of a deleted user is one of its namesake")
	}
	if _, _, err := access.NewToken(bytes.NewReader(nil)); err == nil {
		t.Error("a token without randomness")
	}
}

func TestCertificateBelongsToOneUserAtMost(t *testing.T) {
	with := func(name string, certs ...string) access.Change {
		return access.Change{Verb: access.CreateUser, User: name, Certificates: certs}
	}
	d := apply(t, nil, with("a", "CN=a", "dns:a"), with("b", "CN=b"))
	for _, test := range []struct {
		names []string
		want  string
	}{
		{[]string{"CN=a"}, "a"},
		{[]string{"x", "dns:a"}, "a"},
		{[]string{"CN=a", "dns:a"}, "a"},
		{[]string{"CN=b"}, "b"},
		{[]string{"CN=a", "CN=b"}, ""},
		{[]string{"CN=A"}, ""},
		{nil, ""},
	} {
		got := ""
		if u := d.ByCertificate(test.names); u != nil {
			got = u.Name
		}
		if got != test.want {
			t.Errorf("%q: %q, want %q", test.names, got, test.want)
		}
	}
	if u := apply(t, d, access.Change{Verb: access.DeleteUser, User: "a"}).ByCertificate([]string{"CN=a"}); u != nil {
		t.Errorf("of the deleted user %s", u.Name)
	}
}

func TestPasswordIsHashed(t *testing.T) {
	const password = "correct horse"
	first, err := access.HashPassword(password, rand.Reader)
	if err != nil || strings.Contains(first, password) {
		t.Fatalf("%q, %v", first, err)
	}
	second, err := access.HashPassword(password, rand.Reader)
	if err != nil || first == second {
		t.Errorf("%q, %v: two users of one password have one hash", second, err)
	}
	u := &access.User{Password: first}
	if !access.HasPassword(u, password) || access.HasPassword(u, "correct horsf") || access.HasPassword(u, password+strings.Repeat("x", access.MaxPassword)) {
		t.Error("wrong about a password")
	}
	if access.HasPassword(nil, password) || access.HasPassword(&access.User{}, "") {
		t.Error("who has no password has one")
	}
	for _, bad := range []string{"", "short", strings.Repeat("x", access.MaxPassword+1)} {
		if _, err := access.HashPassword(bad, rand.Reader); !errors.Is(err, failure.InvalidAccess) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}

func TestChangeOmitsCredentials(t *testing.T) {
	token := access.Token{ID: strings.Repeat("a", 16), Hash: strings.Repeat("0", 64), User: "u"}
	for _, c := range []access.Change{
		{Verb: access.SetPassword, User: "u", Password: hashed},
		{Verb: access.CreateToken, Token: &token},
		{Verb: access.CreateUser, User: "u", Password: hashed, Rules: []access.Rule{{Right: access.Publish, Topic: "t"}}},
	} {
		if text := c.String(); strings.Contains(text, hashed) || strings.Contains(text, token.Hash) || !strings.Contains(text, "u") {
			t.Error(text)
		}
	}
}

// TestDirectoryFollowsChanges compares random changes with a model made of plain maps.
func TestDirectoryFollowsChanges(t *testing.T) {
	r := testrand.New(t)
	names := []string{"a", "b", "c"}
	rules := []access.Rule{{Right: access.Read}, {Right: access.Admin}, {Right: access.Publish, Topic: "t*"}, {Right: access.Subscribe, Topic: "t", Channel: "*"}}
	model := map[string]map[access.Rule]bool{}
	var d *access.Directory
	for range 5000 {
		c := randomChange(r, names, rules)
		n, err := d.Apply(c)
		if expect(model, c) != (err == nil) {
			t.Fatalf("%s: %v", c, err)
		}
		if err == nil {
			d = n
		}
		for _, name := range names {
			u := d.User(name)
			if (u != nil) != (model[name] != nil) {
				t.Fatalf("after %s: user %s is %v", c, name, u)
			}
			for _, rule := range rules {
				if u != nil && slices.Contains(u.Rules, rule) != model[name][rule] {
					t.Fatalf("after %s: %s of %s", c, rule, name)
				}
			}
		}
		back, err := access.Restore(d.Store())
		if err != nil || !reflect.DeepEqual(back.Store(), d.Store()) {
			t.Fatalf("after %s: restored as %+v, %v", c, back, err)
		}
	}
}

func randomChange(r *mathrand.Rand, names []string, rules []access.Rule) access.Change {
	c := access.Change{User: names[r.IntN(len(names))]}
	switch r.IntN(4) {
	case 0:
		c.Verb = access.CreateUser
	case 1:
		c.Verb = access.DeleteUser
	case 2:
		c.Verb, c.Rules = access.Grant, []access.Rule{rules[r.IntN(len(rules))]}
	default:
		c.Verb, c.Rules = access.Revoke, []access.Rule{rules[r.IntN(len(rules))]}
	}
	return c
}

// expect applies a change to the model and reports whether it is to be accepted.
func expect(model map[string]map[access.Rule]bool, c access.Change) bool {
	of := model[c.User]
	switch c.Verb {
	case access.CreateUser:
		if of != nil {
			return false
		}
		model[c.User] = map[access.Rule]bool{}
	case access.DeleteUser:
		if of == nil {
			return false
		}
		delete(model, c.User)
	case access.Grant:
		if of == nil {
			return false
		}
		of[c.Rules[0]] = true
	default:
		if of == nil || !of[c.Rules[0]] {
			return false
		}
		delete(of, c.Rules[0])
	}
	return true
}

func TestInvalidStoredAccessIsRefused(t *testing.T) {
	u := func(name string) *access.User { return &access.User{Name: name} }
	for name, s := range map[string]access.Stored{
		"on without an administrator": {On: true},
		"users out of order":          {Users: []*access.User{u("b"), u("a")}},
		"a user twice":                {Users: []*access.User{u("a"), u("a")}},
		"no user":                     {Users: []*access.User{nil}},
		"an odd user":                 {Users: []*access.User{u("a/b")}},
		"a token of no user":          {Tokens: []*access.Token{{ID: strings.Repeat("a", 16), Hash: strings.Repeat("0", 64), User: "u"}}},
	} {
		if d, err := access.Restore(s); d != nil || err == nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func FuzzChange(f *testing.F) {
	f.Add(`{"verb":"create-user","user":"u","rules":[{"right":"publish","topic":"*"}]}`)
	f.Add(`{"verb":"enable"}`)
	f.Fuzz(func(t *testing.T, text string) {
		var c access.Change
		if json.Unmarshal([]byte(text), &c) != nil {
			return
		}
		d, err := (*access.Directory)(nil).Apply(c)
		if (d == nil) == (err == nil) {
			t.Fatal("neither or both of a directory and an error")
		}
		if err == nil {
			if back, err := access.Restore(d.Store()); err != nil || back.On() != d.On() {
				t.Errorf("does not come back: %v", err)
			}
		}
	})
}

func TestTokenSecretsAreRedacted(t *testing.T) {
	text, stored, err := access.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	before, secret := "brk_"+stored.ID+"_", text[len(text)-43:]
	shown := before + "..."
	for have, want := range map[string]string{
		text: shown,
		`{"a":"` + text + `","b":"` + text + `"}`: `{"a":"` + shown + `","b":"` + shown + `"}`,
		"no token: brk_ brk_12 " + before:         "no token: brk_ brk_12 " + before,
	} {
		if got := access.Redact(have); got != want {
			t.Errorf("%q is shown as %q, want %q", have, got, want)
		}
	}
	for n := 1; n <= len(secret); n++ { // so that it truncates at any byte
		if got := access.Redact("x " + before + secret[:n]); got != "x "+shown {
			t.Errorf("with %d bytes of the secret it is shown as %q", n, got)
		}
	}
}

func TestCertificateAdministratorCountsIfVerified(t *testing.T) {
	d, err := (*access.Directory)(nil).Apply(access.Change{
		Verb: access.CreateUser, User: "ops", Rules: []access.Rule{{Right: access.Admin}}, Certificates: []string{"ops.example"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !d.HasAdmin(true) || d.HasAdmin(false) {
		t.Errorf("with certificates %v, without %v", d.HasAdmin(true), d.HasAdmin(false))
	}
}

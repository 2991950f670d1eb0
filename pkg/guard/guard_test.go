package guard

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
)

var (
	now   = time.Unix(1_800_000_000, 0)
	here  = &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}
	there = &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 1}
)

// book is a directory that changes.
type book struct {
	t *testing.T
	d atomic.Pointer[access.Directory]
}

func newBook(t *testing.T, changes ...access.Change) *book {
	b := &book{t: t}
	for _, c := range changes {
		b.change(c)
	}
	return b
}

func (b *book) change(c access.Change) {
	b.t.Helper()
	d, err := b.d.Load().Apply(c)
	if err != nil {
		b.t.Fatal(err)
	}
	b.d.Store(d)
}

// token creates a token of a user.
func (b *book) token(user string, expires int64) (text, id string) {
	b.t.Helper()
	text, stored, err := access.NewToken(rand.Reader)
	if err != nil {
		b.t.Fatal(err)
	}
	stored.User, stored.Expires = user, expires
	b.change(access.Change{Verb: access.CreateToken, Token: &stored})
	return text, stored.ID
}

func (b *book) guard() *Guard { return New(Options{Directory: b.d.Load}) }

func create(name string, certificates ...string) access.Change {
	return access.Change{Verb: access.CreateUser, User: name, Certificates: certificates}
}

func TestIdentityExpiresWithItsCredential(t *testing.T) {
	b := newBook(t, create("joe", "joe.example"))
	g := b.guard()
	nameOf := func(id *Identity, at time.Time) string {
		if u := id.User(b.d.Load(), at.UnixNano()); u != nil {
			return u.Name
		}
		return ""
	}
	text, id := b.token("joe", 0)
	brief, _ := b.token("joe", now.Add(time.Second).UnixNano())
	who, err := g.Token(here, text, now)
	if err != nil || nameOf(who, now) != "joe" {
		t.Fatalf("%v", err)
	}
	soon, err := g.Token(here, brief, now)
	if err != nil || nameOf(soon, now) != "joe" || nameOf(soon, now.Add(time.Second)) != "" {
		t.Errorf("a token counts after its end: %v", err)
	}
	if _, err := g.Token(here, brief, now.Add(time.Second)); !errors.Is(err, failure.WrongCredentials) {
		t.Errorf("an expired token: %v", err)
	}
	cert := Certificate(&x509.Certificate{Subject: pkix.Name{CommonName: "x"}, DNSNames: []string{"joe.example"}})
	if nameOf(cert, now) != "joe" {
		t.Error("the certificate belongs to no user")
	}
	b.change(access.Change{Verb: access.RevokeToken, ID: id})
	if nameOf(who, now) != "" {
		t.Error("a revoked token counts")
	}
	b.change(access.Change{Verb: access.DeleteUser, User: "joe"})
	b.change(create("joe"))
	if nameOf(soon, now) != "" || nameOf(cert, now) != "" {
		t.Error("the user that was made again has the credentials of the one before")
	}
	if nameOf(nil, now) != "" || nameOf(Certificate(&x509.Certificate{}), now) != "" {
		t.Error("no credential has a name")
	}
}

// TestRememberedPasswordIsNoWayAroundTheLimit: an address with too many failures does not get in with the right
// password, also while the user has just logged in from elsewhere.
func TestRememberedPasswordIsNoWayAroundTheLimit(t *testing.T) {
	stored, err := access.HashPassword("password 1", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b := newBook(t, create("joe"), access.Change{Verb: access.SetPassword, User: "joe", Password: stored})
	g := b.guard()
	for range failureBurst {
		_, _ = g.Password(t.Context(), there, "joe", "wrong", now)
	}
	if _, err := g.Password(t.Context(), here, "joe", "password 1", now); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Password(t.Context(), there, "joe", "password 1", now); !errors.Is(err, failure.ManyFailures) {
		t.Errorf("the address with failures: %v", err)
	}
	if _, err := g.Password(t.Context(), here, "joe", "password 1", now); err != nil {
		t.Errorf("the other address: %v", err)
	}
	if _, err := g.Password(t.Context(), there, "joe", "password 1", now.Add(failureEach)); err != nil {
		t.Errorf("the address with failures, later: %v", err)
	}
}

// TestCertificateHasAnEnd: its identity has no user afterwards.
func TestCertificateHasAnEnd(t *testing.T) {
	b := newBook(t, access.Change{Verb: access.CreateUser, User: "ops", Certificates: []string{"ops"}})
	for _, tt := range []struct {
		end time.Time
		ok  bool
	}{{now.Add(-time.Second), false}, {now, true}, {time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), true}} {
		id := Certificate(&x509.Certificate{Subject: pkix.Name{CommonName: "ops"}, NotAfter: tt.end})
		if ok := id.User(b.d.Load(), now.UnixNano()) != nil; ok != tt.ok {
			t.Errorf("%v: %v", tt.end, ok)
		}
	}
}

func TestFailuresAreLimitedByAddress(t *testing.T) {
	b := newBook(t, create("joe"))
	text, _ := b.token("joe", 0)
	g := b.guard()
	throttled := 0
	for range 50 {
		if _, err := g.Token(here, "brk_wrong", now); errors.Is(err, failure.ManyFailures) {
			throttled++
		}
	}
	if throttled != 50-failureBurst {
		t.Errorf("%d of 50 throttled", throttled)
	}
	if _, err := g.Token(here, text, now); err != nil {
		t.Errorf("a valid token of that address: %v", err)
	}
	if _, err := g.Password(t.Context(), here, "joe", "password", now); !errors.Is(err, failure.ManyFailures) {
		t.Errorf("a password of that address: %v", err)
	}
	if _, err := g.Token(there, "brk_wrong", now); errors.Is(err, failure.ManyFailures) || !errors.Is(err, failure.WrongCredentials) {
		t.Errorf("another address: %v", err)
	}
	if _, err := g.Token(here, "brk_wrong", now.Add(time.Minute)); errors.Is(err, failure.ManyFailures) {
		t.Error("throttled a minute later")
	}
	for i := range 3 * failurePlace { // although many addresses were used: few are remembered
		from := &net.TCPAddr{IP: net.IPv4(11, byte(i>>16), byte(i>>8), byte(i))}
		_, _ = g.Token(from, "", now)
	}
	if n := len(g.failures.used); n > failurePlace+1 {
		t.Errorf("%d addresses are remembered", n)
	}
}

func TestVerifiedPasswordIsCached(t *testing.T) {
	stored, err := access.HashPassword("password 1", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := access.HashPassword("password 2", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b := newBook(t, create("joe"), create("none"), access.Change{Verb: access.SetPassword, User: "joe", Password: stored})
	text, _ := b.token("joe", 0)
	g := b.guard()
	check := func(user, password string, want bool) {
		t.Helper()
		if _, err := g.Password(t.Context(), here, user, password, now); (err == nil) != want {
			t.Errorf("%s, %s: %v", user, password, err)
		}
	}
	check("joe", "password 1", true)
	g.hashing <- struct{}{}
	g.hashing <- struct{}{} // hashing is not possible now
	check("joe", "password 1", true)
	check("joe", text, true)
	check("none", text, false)
	<-g.hashing
	<-g.hashing
	check("joe", "password 2", false)
	check("none", "password 1", false)
	check("none", "", false)
	check("unknown", "", false)
	b.change(access.Change{Verb: access.SetPassword, User: "joe", Password: other})
	check("joe", "password 1", false)
	check("joe", "password 2", true)
	for i := range 2 * rememberMost {
		g.remember([32]byte{byte(i), byte(i >> 8)}, now)
	}
	if len(g.right) > rememberMost {
		t.Errorf("%d passwords are remembered", len(g.right))
	}
}

func TestFewPasswordsAreHashedAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{Directory: func() *access.Directory { return nil }})
		var at, most, busy atomic.Int32
		for range slots + queued + 5 {
			go func() {
				if err := g.Hashing(t.Context(), func() {
					most.Store(max(most.Load(), at.Add(1)))
					time.Sleep(time.Second)
					at.Add(-1)
				}); errors.Is(err, failure.ManyPasswords) {
					busy.Add(1)
				}
			}()
		}
		synctest.Wait()
		if busy.Load() != 5 || at.Load() != slots {
			t.Errorf("%d were refused, %d are hashed", busy.Load(), at.Load())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		time.Sleep(time.Minute)
		if most.Load() != slots || at.Load() != 0 {
			t.Errorf("%d were hashed at a time", most.Load())
		}
		g.hashing <- struct{}{}
		g.hashing <- struct{}{}
		if err := g.Hashing(ctx, func() { t.Error("hashed") }); !errors.Is(err, failure.ManyPasswords) {
			t.Errorf("%v", err)
		}
	})
}

func TestFirstAdministratorSecretIsNoUser(t *testing.T) {
	b := newBook(t, create(firstAdministrator))
	g := New(Options{Directory: b.d.Load, First: func(text string) bool { return text == "secret" }})
	who, err := g.Token(here, "secret", now)
	if err != nil || !who.First() || who.User(b.d.Load(), now.UnixNano()) != nil {
		t.Errorf("%v", err)
	}
	if _, err := g.Token(here, "", now); err == nil {
		t.Error("nothing is a secret")
	}
}

func TestRulesDecideForCaller(t *testing.T) {
	b := newBook(t, access.Change{Verb: access.CreateUser, User: "joe", Rules: []access.Rule{{Right: access.Publish, Topic: "a*"}}},
		access.Change{Verb: access.CreateUser, User: "ops", Certificates: []string{"ops"}, Rules: []access.Rule{{Right: access.Admin}}})
	text, _ := b.token("joe", 0)
	who, err := b.guard().Token(here, text, now)
	if err != nil {
		t.Fatal(err)
	}
	allow := func(topic string) error {
		ctx := WithCaller(t.Context(), Caller{who, b.d.Load(), now})
		return CallerOf(ctx).Allow(access.Demand{Right: access.Publish, Topic: topic})
	}
	if err := allow("b"); err != nil {
		t.Errorf("refused while access control is off: %v", err)
	}
	b.change(access.Change{Verb: access.Enable})
	if err := allow("ab"); err != nil {
		t.Error(err)
	}
	if err := allow("b"); !errors.Is(err, failure.NotPermitted) || fmt.Sprint(err) != `not permitted: user "joe" has no rule for publish b` {
		t.Errorf("%v", err)
	}
	if CallerOf(t.Context()).Name() != "" {
		t.Error("a request without a caller has a name")
	}
}

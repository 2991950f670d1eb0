package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/nsq"
)

// book is a directory that changes and notifies its watchers.
type book struct {
	t       testing.TB
	d       atomic.Pointer[access.Directory]
	mu      sync.Mutex // guards changed
	changed chan struct{}
}

func newBook(t testing.TB) *book {
	b := &book{t: t, changed: make(chan struct{})}
	b.change(access.Change{Verb: access.CreateUser, User: "ops", Certificates: []string{"ops"}, Rules: []access.Rule{{Right: access.Admin}}})
	b.change(access.Change{Verb: access.CreateUser, User: "joe", Rules: []access.Rule{
		{Right: access.Publish, Topic: "t*"}, {Right: access.Subscribe, Topic: "t", Channel: "c*"},
	}})
	b.change(access.Change{Verb: access.CreateUser, User: "idle"})
	return b
}

func (b *book) change(c access.Change) {
	b.t.Helper()
	d, err := b.d.Load().Apply(c)
	if err != nil {
		b.t.Fatal(err)
	}
	b.d.Store(d)
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *book) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

func (b *book) token(user string, expires time.Time) (text, id string) {
	b.t.Helper()
	text, stored, err := access.NewToken(rand.Reader)
	if err != nil {
		b.t.Fatal(err)
	}
	if stored.User = user; !expires.IsZero() {
		stored.Expires = expires.UnixNano()
	}
	b.change(access.Change{Verb: access.CreateToken, Token: &stored})
	return text, stored.ID
}

func (b *book) enable(on bool) {
	b.t.Helper()
	verb := access.Disable
	if on {
		verb = access.Enable
	}
	b.change(access.Change{Verb: verb})
}

// guarded is a server whose access control is on.
func guarded(t testing.TB, opts Options) (*harness, *book) {
	t.Helper()
	b := newBook(t)
	b.enable(true)
	opts.Guard = guard.New(guard.Options{Directory: b.d.Load, Changed: b.wait})
	h := newHarness(t, opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); h.EnforceAccess(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return h, b
}

func authWith(secret string) string { return "AUTH\n" + sized(secret) }

const joesAnswer = `{"identity":"joe","identity_url":"","permission_count":2}`

func TestUserRulesAreEnforced(t *testing.T) {
	h, b := guarded(t, Options{})
	joe, _ := b.token("joe", time.Time{})
	idle, _ := b.token("idle", time.Time{})
	ops, _ := b.token("ops", time.Time{})
	gone, id := b.token("joe", time.Time{})
	b.change(access.Change{Verb: access.RevokeToken, ID: id})
	expired, _ := b.token("joe", time.Now().Add(-time.Second))
	good := authWith(joe)
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"all that is granted", good + "PUB t\n" + sized("a") + mpub("t2", "a") + "DPUB t 1\n" + sized("a") + "SUB t c1\n", []string{joesAnswer, "OK", "OK", "OK", "OK"}},
		{"an administrator", authWith(ops) + "PUB any\n" + sized("a"), []string{`{"identity":"ops","identity_url":"","permission_count":1}`, "OK"}},
		{"no token", authWith("hello"), []string{"E_AUTH_FAILED AUTH failed", "EOF"}},
		{"almost a token", authWith(joe[:len(joe)-1] + "!"), []string{"E_AUTH_FAILED AUTH failed", "EOF"}},
		{"another secret of the id", authWith(joe[:25] + strings.Repeat("A", len(joe)-25)), []string{"E_AUTH_FAILED AUTH failed", "EOF"}},
		{"a long one", authWith(strings.Repeat("x", authBytes)), []string{"E_AUTH_FAILED AUTH failed", "EOF"}},
		{"too long", authWith(strings.Repeat("x", authBytes+1)), []string{"E_BAD_BODY AUTH body too big 4097 > 4096", "EOF"}},
		{"empty", "AUTH\n\x00\x00\x00\x00", []string{"E_BAD_BODY AUTH invalid body size 0", "EOF"}},
		{"revoked", authWith(gone), []string{"E_AUTH_FAILED AUTH failed", "EOF"}},
		{"expired", authWith(expired), []string{"E_AUTH_FAILED AUTH failed", "EOF"}},
		{"no rules", authWith(idle), []string{"E_UNAUTHORIZED AUTH no authorizations found", "EOF"}},
		{"twice", good + good, []string{joesAnswer, "E_INVALID AUTH already set", "EOF"}},
		{"PUB first", "PUB t\n" + sized("a"), []string{"E_AUTH_FIRST AUTH required before PUB", "EOF"}},
		{"MPUB first", "MPUB t\n", []string{"E_AUTH_FIRST AUTH required before MPUB", "EOF"}},
		{"DPUB first", "DPUB t 1\n" + sized("a"), []string{"E_AUTH_FIRST AUTH required before DPUB", "EOF"}},
		{"SUB first", "SUB t c\n", []string{"E_AUTH_FIRST AUTH required before SUB", "EOF"}},
		{"SUB_ADVANCED first, whether there is a topic or not", "SUB_ADVANCED none c\n", []string{"E_AUTH_FIRST AUTH required before SUB_ADVANCED", "EOF"}},
		{"PUB_EXT first, likewise", "PUB_EXT none\n" + sized("a"), []string{"E_AUTH_FIRST AUTH required before PUB_EXT", "EOF"}},
		{"CREATE_TOPIC first", "INTERNAL_CREATE_TOPIC t 0\n", []string{"E_AUTH_FIRST AUTH required before INTERNAL_CREATE_TOPIC", "EOF"}},
		{"PUB elsewhere", good + "PUB x\n" + sized("a"), []string{joesAnswer, `E_UNAUTHORIZED AUTH failed for PUB on "x" ""`, "EOF"}},
		{"MPUB elsewhere", good + "MPUB x\n", []string{joesAnswer, `E_UNAUTHORIZED AUTH failed for MPUB on "x" ""`, "EOF"}},
		{"PUB_EXT elsewhere", good + "PUB_EXT x\n" + sized("a"), []string{joesAnswer, `E_UNAUTHORIZED AUTH failed for PUB_EXT on "x" ""`, "EOF"}},
		{"SUB elsewhere", good + "SUB t d\n", []string{joesAnswer, `E_UNAUTHORIZED AUTH failed for SUB on "t" "d"`, "EOF"}},
		{"SUB of a topic to which he publishes", good + "SUB t2 c\n", []string{joesAnswer, `E_UNAUTHORIZED AUTH failed for SUB on "t2" "c"`, "EOF"}},
		{"CREATE_TOPIC without manage", good + "INTERNAL_CREATE_TOPIC t 0\n", []string{joesAnswer, `E_UNAUTHORIZED AUTH failed for INTERNAL_CREATE_TOPIC on "t" ""`, "EOF"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := h.dial(t)
			w.send(tt.in)
			w.expect(tt.want...)
		})
	}
}

func TestIdentifyReportsAccessControl(t *testing.T) {
	h, b := guarded(t, Options{})
	for _, on := range []bool{true, false, true} {
		b.enable(on)
		w := h.dial(t)
		w.send("IDENTIFY\n" + sized(`{"feature_negotiation":true}`))
		if got := w.frame(); !strings.Contains(got, fmt.Sprintf(`"auth_required":%v`, on)) {
			t.Errorf("access control is on: %v; %s", on, got)
		}
	}
	b.enable(false)
	joe, _ := b.token("joe", time.Time{})
	w := h.dial(t)
	w.send("PUB x\n" + sized("a") + authWith(joe))
	w.expect("OK", "E_AUTH_DISABLED AUTH disabled", "EOF")
}

// TestAccessChangeStopsNextPublish revokes rights of an open connection.
func TestAccessChangeStopsNextPublish(t *testing.T) {
	const unauthorized, failed = `E_UNAUTHORIZED AUTH failed for PUB on "t" ""`, "E_AUTH_FAILED AUTH failed"
	for _, tt := range []struct {
		name   string
		change func(b *book, id string)
		want   string
	}{
		{"token revoked", func(b *book, id string) { b.change(access.Change{Verb: access.RevokeToken, ID: id}) }, failed},
		{"user deleted", func(b *book, _ string) { b.change(access.Change{Verb: access.DeleteUser, User: "joe"}) }, failed},
		{"user deleted and made again", func(b *book, _ string) {
			b.change(access.Change{Verb: access.DeleteUser, User: "joe"})
			b.change(access.Change{Verb: access.CreateUser, User: "joe", Rules: []access.Rule{{Right: access.Admin}}})
		}, failed},
		{"rule revoked", func(b *book, _ string) {
			b.change(access.Change{Verb: access.Revoke, User: "joe", Rules: []access.Rule{{Right: access.Publish, Topic: "t*"}}})
		}, unauthorized},
		{"off and on", func(b *book, _ string) { b.enable(false); b.enable(true) }, "OK"},
		{"another rule", func(b *book, _ string) {
			b.change(access.Change{Verb: access.Grant, User: "joe", Rules: []access.Rule{{Right: access.Read}}})
		}, "OK"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, b := guarded(t, Options{})
			joe, id := b.token("joe", time.Time{})
			w := h.dial(t)
			w.send(authWith(joe))
			w.expect(joesAnswer)
			for range 3 {
				w.send("PUB t\n" + sized("a"))
				w.expect("OK")
			}
			tt.change(b, id)
			w.send("PUB t\n" + sized("a"))
			w.expect(tt.want)
		})
	}
}

func TestExpiredTokenStopsTheNextPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBook(t)
		b.enable(true)
		_, _, conn := pipeServer(t, Options{Guard: guard.New(guard.Options{Directory: b.d.Load, Changed: b.wait})})
		joe, _ := b.token("joe", time.Now().Add(10*time.Second))
		w := &wire{t, conn}
		w.send(nsq.Magic + authWith(joe) + "PUB t\n" + sized("a"))
		w.expect(joesAnswer, "OK")
		time.Sleep(10*time.Second - time.Nanosecond)
		w.send("PUB t\n" + sized("a"))
		w.expect("OK")
		time.Sleep(time.Nanosecond)
		w.send("PUB t\n" + sized("a"))
		w.expect("E_AUTH_FAILED AUTH failed")
		_ = conn.Close() // the answer may arrive before the server has closed its end
	})
}

// TestAccessChangeEndsSubscription: a consumer that sends nothing gets the error, too.
func TestAccessChangeEndsSubscription(t *testing.T) {
	for _, tt := range []struct {
		name   string
		auth   bool
		change func(b *book, id string)
		want   string
	}{
		{"token revoked", true, func(b *book, id string) { b.change(access.Change{Verb: access.RevokeToken, ID: id}) }, "E_AUTH_FAILED AUTH failed"},
		{"rule revoked", true, func(b *book, _ string) {
			b.change(access.Change{Verb: access.Revoke, User: "joe", Rules: []access.Rule{{Right: access.Subscribe, Topic: "t", Channel: "c*"}}})
		}, `E_UNAUTHORIZED AUTH failed for SUB on "t" "c"`},
		{"access control enabled", false, func(b *book, _ string) { b.enable(true) }, "E_AUTH_FIRST AUTH required before SUB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, b := guarded(t, Options{})
			joe, id := b.token("joe", time.Time{})
			w := h.dial(t)
			if tt.auth {
				w.send(authWith(joe))
				w.expect(joesAnswer)
			} else {
				b.enable(false)
			}
			w.send("SUB t c\n")
			w.expect("OK")
			other := h.dial(t)
			ops, _ := b.token("ops", time.Time{})
			if tt.auth {
				other.send(authWith(ops))
				other.frame()
			}
			tt.change(b, id)
			w.expect(tt.want, "EOF")
			if tt.auth {
				other.send("PUB t\n" + sized("a"))
				other.expect("OK")
			}
		})
	}
}

func TestSubscriptionEndsWhenTokenExpires(t *testing.T) {
	h, b := guarded(t, Options{})
	for valid := 500 * time.Millisecond; valid < testTimeout; valid *= 2 { // it may expire before it is read
		joe, _ := b.token("joe", time.Now().Add(valid))
		w := h.dial(t)
		w.send(authWith(joe) + "SUB t c\n")
		if w.frame() == joesAnswer && w.frame() == "OK" {
			w.expect("E_AUTH_FAILED AUTH failed", "EOF")
			return
		}
	}
	t.Error("the token is not accepted")
}

func TestAuthServersAndUsersSideBySide(t *testing.T) {
	h, queries := authHarnessWith(t, func(o *Options) {
		b := newBook(t)
		b.enable(true)
		o.Guard = guard.New(guard.Options{Directory: b.d.Load})
		tokenForTest, _ = b.token("joe", time.Time{})
		bookForTest = b
	})
	const served = `{"identity":"joe","identity_url":"u","permission_count":1}`
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"auth server", authWith("good") + "PUB t\n" + sized("a") + "SUB t c\n", []string{served, "OK", "OK"}},
		{"auth server, elsewhere", authWith("good") + "PUB x\n" + sized("a"), []string{served, `E_UNAUTHORIZED AUTH failed for PUB on "x" ""`, "EOF"}},
		{"auth server, refused", authWith("bad"), []string{"E_AUTH_FAILED AUTH failed", "EOF"}},
		{"nothing", "PUB t\n" + sized("a"), []string{"E_AUTH_FIRST AUTH required before PUB", "EOF"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := h.dial(t)
			w.send(tt.in)
			w.expect(tt.want...)
		})
	}
	w := h.dial(t)
	w.send(authWith(tokenForTest))
	w.frame()
	for _, on := range []bool{true, false, true} { // a client with a token is not affected by the switch
		bookForTest.enable(on)
		w.send("PUB t\n" + sized("a"))
		w.expect("OK")
		again := h.dial(t)
		again.send(authWith(tokenForTest))
		again.frame()
		again.send("PUB t\n" + sized("a") + "PUB x\n" + sized("a"))
		again.expect("OK", `E_UNAUTHORIZED AUTH failed for PUB on "x" ""`, "EOF")
	}
	asked := queries.Load()
	for _, token := range []string{tokenForTest, tokenForTest[:25] + strings.Repeat("A", len(tokenForTest)-25)} {
		w := h.dial(t)
		w.send(authWith(token))
		w.frame()
	}
	if queries.Load() != asked {
		t.Error("an auth server received a token")
	}
}

// The fixtures of TestAuthServersAndUsersSideBySide.
var (
	tokenForTest string
	bookForTest  *book
)

// TestNoPublishAfterAccessChange publishes continuously while a rule is added and removed. Nothing
// that was sent after the removal is accepted.
func TestNoPublishAfterAccessChange(t *testing.T) {
	h, b := guarded(t, Options{})
	rule := []access.Rule{{Right: access.Publish, Topic: "t*"}}
	for range 20 {
		joe, _ := b.token("joe", time.Time{})
		w := h.dial(t)
		w.send(authWith(joe))
		w.expect(joesAnswer)
		w.send(strings.Repeat("PUB t\n"+sized("a"), 50))
		b.change(access.Change{Verb: access.Revoke, User: "joe", Rules: rule})
		w.send("PUB t\n" + sized("late"))
		taken := 0
		for w.frame() == "OK" {
			taken++
		}
		if taken > 50 {
			t.Fatal("a publish was taken after the change")
		}
		b.change(access.Change{Verb: access.Grant, User: "joe", Rules: rule})
	}
}

func BenchmarkPermittedPublish(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("on=%v", on), func(b *testing.B) {
			h, book := guarded(b, Options{})
			token, _ := book.token("joe", time.Time{})
			who, err := h.opts.Guard.Token(nil, token, time.Now())
			if err != nil {
				b.Fatal(err)
			}
			if !on {
				book.enable(false)
			}
			r := &rights{link: &link{srv: h.Server}, who: who}
			t := &producedTopic{name: "t"}
			b.ReportAllocs()
			for b.Loop() {
				if err := r.publish(b.Context(), 0, t); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

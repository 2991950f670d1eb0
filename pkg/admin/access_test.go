package admin

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/meta"
)

// fakeAccess holds users and rules in memory.
type fakeAccess struct {
	mu sync.Mutex // guards d
	d  *access.Directory
}

func (f *fakeAccess) Directory() *access.Directory {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.d
}

func (f *fakeAccess) Administrator() bool { return f.Directory().HasAdmin(true) }

func (f *fakeAccess) PortOpen() bool { return false }

func (f *fakeAccess) ClosePort() (string, error) { return "/data/cluster-secret", nil }

func (f *fakeAccess) Change(_ context.Context, c access.Change) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next, err := f.d.Apply(c)
	if err == nil {
		f.d = next
	}
	return err
}

const (
	firstSecret = "the first secret"
	opsPassword = "the password of ops"
)

// hashOnce returns the stored form of opsPassword.
var hashOnce = sync.OnceValue(func() string {
	stored, err := access.HashPassword(opsPassword, rand.Reader)
	if err != nil {
		panic(err)
	}
	return stored
})

// guardedServer returns a server with access control on, and the tokens of its users by name.
func guardedServer(t *testing.T, f *fake, change ...func(*Options)) (*Server, *fakeAccess, map[string]string) {
	t.Helper()
	a := &fakeAccess{}
	apply := func(c access.Change) {
		t.Helper()
		if err := a.Change(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	apply(access.Change{Verb: access.CreateUser, User: "ops", Password: hashOnce(), Rules: []access.Rule{{Right: access.Admin}}})
	apply(access.Change{Verb: access.CreateUser, User: "reader", Rules: []access.Rule{{Right: access.Read}}})
	apply(access.Change{Verb: access.CreateUser, User: "idle", Certificates: []string{"idle.example"}})
	apply(access.Change{Verb: access.CreateUser, User: "publisher", Rules: []access.Rule{{Right: access.Publish, Topic: "t"}}})
	apply(access.Change{Verb: access.CreateUser, User: "consumer", Rules: []access.Rule{{Right: access.Subscribe, Topic: "t", Channel: "c"}}})
	apply(access.Change{Verb: access.CreateUser, User: "manager", Rules: []access.Rule{{Right: access.Manage, Topic: "t"}}})
	apply(access.Change{Verb: access.CreateUser, User: "letters", Rules: []access.Rule{{Right: access.Manage, Topic: "t"}, {Right: access.Manage, Topic: "t.d.dlq"}}})
	tokens := map[string]string{"": "", "wrong": "brk_0000000000000000_" + strings.Repeat("A", 43)}
	for _, u := range a.d.Users() {
		text, token, err := access.NewToken(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		token.User, tokens[u.Name] = u.Name, text
		apply(access.Change{Verb: access.CreateToken, Token: &token})
	}
	apply(access.Change{Verb: access.Enable})
	o := []func(*Options){func(o *Options) {
		o.V1.Access.Accesses = a
		o.Guard = guard.New(guard.Options{Directory: a.Directory, First: func(text string) bool { return text == firstSecret }})
		o.Metrics, o.DetailedMetrics = http.NotFoundHandler(), http.NotFoundHandler()
		o.Debug = true
	}}
	return serverOf(t, f, append(o, change...)...), a, tokens
}

// askAs sends a request with a token.
func askAs(h http.Handler, token, method, target, body string) *httptest.ResponseRecorder {
	if token == "" {
		return ask(h, method, target, body)
	}
	return ask(h, method, target, body, "Authorization", "Bearer "+token)
}

// TestEveryRouteHasARight fails if a route was added without the right that it requires.
func TestEveryRouteHasARight(t *testing.T) {
	s, _, _ := guardedServer(t, newFake())
	o := &Options{}
	for i, needs := range []map[string]need{o.needs(rightsOfV1, rightsOfNode), rightsOfLookup} {
		for _, pattern := range s.patterns[i] {
			if _, ok := needs[pattern]; !ok {
				t.Errorf("%s has no right in the table of pkg/admin/rights.go", pattern)
			}
		}
		for pattern := range needs {
			if !slices.Contains(s.patterns[i], pattern) {
				t.Errorf("%s has a right, and there is no such route", pattern)
			}
		}
	}
}

// TestRequestsWithoutIdentityAreRefused calls every route, without a credential and with a wrong
// one.
func TestRequestsWithoutIdentityAreRefused(t *testing.T) {
	f := newFake("t").withChannel("t", "c")
	s, _, tokens := guardedServer(t, f)
	open := []string{"/livez", "/healthz", "/readyz", "/startupz", "/ping"}
	fill := strings.NewReplacer("{topic}", "t", "{channel}", "c", "{partition}", "0", "{node}", "n1", "{id}", "0000000000000001", "{user}", "ops")
	for i, h := range []http.Handler{s.Handler(), s.LookupHandler()} {
		for _, pattern := range s.patterns[i] {
			method, path, _ := strings.Cut(fill.Replace(pattern), " ")
			for _, token := range []string{"", tokens["wrong"]} {
				w := askAs(h, token, method, path+"?topic=t&channel=c", "{}")
				if slices.Contains(open, path) {
					if w.Code == http.StatusUnauthorized {
						t.Errorf("%s: %d", pattern, w.Code)
					}
				} else if w.Code != http.StatusUnauthorized && w.Code != http.StatusTooManyRequests {
					t.Errorf("%s with token %q: %d %s", pattern, token, w.Code, w.Body)
				}
			}
		}
	}
	for _, path := range []string{"//v1/topics", "/v1//topics", "/v1/./topics", "/v1/topics/../topics", "/v1/%74opics", "/v1%2Ftopics", "/V1/topics", "/v1/topics/", "/none", "/debug/pprof/heap", "/debug//pprof/", "/config/x/y", "/metrics/"} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "TRACE", "PUT", "DELETE"} {
			if w := ask(s.Handler(), method, "http://host"+path, "{}"); w.Code != http.StatusUnauthorized {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
	if len(f.calls) != 0 || len(f.published) != 0 || len(meta.JournalOf(&f.journal).Acts()) != 0 {
		t.Errorf("something was done or recorded: %v", f.calls)
	}
}

func TestEachRequestNeedsItsRight(t *testing.T) {
	for _, tt := range []struct {
		request, body string
		who           string // names of users with the right
	}{
		{"POST /pub?topic=t", "a", "ops publisher"},
		{"POST /mpub?topic=t", "a", "ops publisher"},
		{"POST /pub?topic=t2", "a", "ops"},
		{"POST /pub?topic=t2&topic=t", "a", "ops"},
		{"POST /pub?topic=t&topic=t2", "a", "ops publisher"},
		{"POST /pub?Topic=t", "a", "ops"},
		{"POST /pub", "a", "ops"},
		{"POST /v1/topics/t/messages", `{"messages":[{"body":"YQ=="}]}`, "ops publisher"},
		{"POST /v1/topics/t/messages", `{"messages":[{"text":"a","headers":{"##ttl":"x","dead_letter":{"topic":"t2"}}}]}`, "ops"},
		{"POST /v1/topics/t2/messages?topic=t", `{"messages":[{"body":"YQ=="}]}`, "ops"},
		{"POST /v1/topics/%74/messages", `{"messages":[{"body":"YQ=="}]}`, "ops publisher"},
		{"GET /v1/topics/t/messages", "", "ops consumer"},
		{"GET /v1/topics/t/channels/c/messages", "", "ops consumer"},
		{"GET /v1/topics/t/channels/d/messages?channel=c", "", "ops"},
		{"GET /v1/topics/t2/messages", "", "ops"},
		{"POST /v1/topics", `{"name":"t"}`, "ops manager letters"},
		{"POST /v1/topics", `{"name":"t3"}`, "ops"},
		{"POST /topic/create?topic=t", "", "ops manager letters"},
		{"POST /topic/create?topic=t3", "", "ops"},
		{"DELETE /v1/topics?topic=t2", "", "ops"},
		{"DELETE /v1/topics/t", "", "ops manager letters"},
		{"POST /v1/topics/t/channels/c/pause", "", "ops manager letters"},
		{"POST /channel/delete?topic=t&channel=c", "", "ops manager letters"},
		{"PATCH /v1/topics/t/channels/c", `{"policy":{"dead_letter_topic":"t2"}}`, "ops"},
		{"POST /v1/topics/t/channels", `{"name":"d","policy":{"dead_letter_topic":"t2"}}`, "ops"},
		{"PATCH /v1/topics/t", `{"channel_policy":{"dead_letter_topic":"t2"}}`, "ops"},
		{"PATCH /v1/topics/t/channels/c", `{"policy":{"max_attempts":5}}`, "ops"}, // to t.c.dlq
		{"PATCH /v1/topics/t/channels/c", `{"policy":{"on_expired":"dead-letter"}}`, "ops"},
		{"PATCH /v1/topics/t/channels/c", `{"policy":{"on_exhausted":"dead-letter"}}`, "ops"}, // another level may limit attempts
		{"POST /v1/topics/t/channels", `{"name":"d","policy":{"on_exhausted":"dead-letter"}}`, "ops letters"},
		{"PATCH /v1/topics/t/channels/c", `{"policy":{"max_attempts":5,"on_exhausted":"drop"}}`, "ops manager letters"},
		{"PATCH /v1/topics/t/channels/c", `{"policy":{"max_attempts":0,"reset":["on_exhausted"]}}`, "ops manager letters"},
		{"PATCH /v1/topics/t/channels/c", `{"policy":{"rate":100}}`, "ops manager letters"},
		{"POST /v1/topics/t/channels", `{"name":"d","policy":{"max_attempts":5}}`, "ops letters"}, // to t.d.dlq
		{"PATCH /v1/topics/t", `{"channel_policy":{"max_attempts":5}}`, "ops"},
		{"PATCH /v1/topics/t", `{"channel_policy":{"max_attempts":5,"dead_letter_topic":"t"}}`, "ops"},
		{"POST /v1/topics", `{"name":"t","config":{"channel_policy":{"max_attempts":5}}}`, "ops"},
		{"POST /v1/topics/t/messages/1/copy?to=t2", "", "ops"},
		{"GET /v1/dead-letters", "", "ops reader"},
		{"GET /v1/snapshot", "", "ops"},
		{"GET /v1/topics", "", "ops reader"},
		{"HEAD /v1/topics", "", "ops reader"},
		{"GET /stats", "", "ops reader"},
		{"GET /v1/audit", "", "ops reader"},
		{"POST /v1/nodes/n1/drain", "", "ops"},
		{"GET /v1/access", "", "ops reader"},
		{"GET /v1/access/self", "", "ops reader idle publisher consumer manager letters"},
		{"GET /v1/access/users", "", "ops"},
		{"POST /v1/access/disable", "", "ops"},
		{"PUT /config/log_level", "info", "ops"},
		{"GET /debug/pprof/", "", "ops"},
		{"GET /lookup?topic=t", "", "ops reader idle publisher consumer manager letters"},
		{"GET /none", "", "ops reader idle publisher consumer manager letters"},
		{"GET /v1/../x", "", "ops reader idle publisher consumer manager letters"},
	} {
		for _, user := range []string{"ops", "reader", "idle", "publisher", "consumer", "manager", "letters"} {
			f := newFake("t", "t2").withChannel("t", "c")
			s, _, tokens := guardedServer(t, f)
			method, target, _ := strings.Cut(tt.request, " ")
			w := askAs(s.Handler(), tokens[user], method, target, tt.body)
			may := slices.Contains(strings.Fields(tt.who), user)
			if refused := w.Code == http.StatusForbidden || w.Code == http.StatusUnauthorized; refused == may {
				t.Errorf("%s by %s: %d %s", tt.request, user, w.Code, w.Body)
			}
			if !may && len(f.calls)+len(f.published) > 0 {
				t.Errorf("%s by %s did something", tt.request, user)
			}
		}
	}
}

// TestRefusedChangesOfUsersAreRecorded: once, and not those of strangers, and neither reads nor publishes.
func TestRefusedChangesOfUsersAreRecorded(t *testing.T) {
	f := newFake("t").withChannel("t", "c")
	s, _, tokens := guardedServer(t, f)
	for _, x := range []struct {
		user, request string
		lookup        bool
		code          int
		recorded      string // "" if nothing is
	}{
		{"reader", "POST /v1/topics/t/pause", false, 403, "t"},
		{"reader", "POST /v1/topics/t/pause", false, 403, ""},
		{"publisher", "POST /v1/topics/t/pause", false, 403, "t"},
		{"reader", "POST /v1/topics/t/channels/c/empty?reason=x", false, 403, "t/c"},
		{"reader", "POST /topic/delete?topic=t", true, 403, "t"},
		{"reader", "POST /v1/access/users", false, 403, " "},
		{"reader", "DELETE /v1/topics/messages", false, 403, "messages"},
		{"idle", "GET /v1/topics", false, 403, ""},
		{"reader", "POST /v1/topics/t/messages", false, 403, ""},
		{"", "POST /v1/topics/t/resume", false, 401, ""},
	} {
		h := s.Handler()
		if x.lookup {
			h = s.LookupHandler()
		}
		method, target, _ := strings.Cut(x.request, " ")
		before := len(f.Journal().Acts())
		if w := askAs(h, tokens[x.user], method, target, `{"password":"secret"}`); w.Code != x.code {
			t.Errorf("%s by %s: %d %s", x.request, x.user, w.Code, w.Body)
		}
		acts := f.Journal().Acts()[before:]
		if (x.recorded == "") != (len(acts) == 0) {
			t.Errorf("%s by %s: %d acts", x.request, x.user, len(acts))
		}
		for _, a := range acts {
			path, _, _ := strings.Cut(target, "?")
			if a.Identity != x.user || a.Status != 403 || a.Verb != method+" "+path || a.Object != strings.TrimSpace(x.recorded) || !strings.Contains(a.Request, x.user) || strings.Contains(a.Request, "secret") {
				t.Errorf("%s by %s: %+v", x.request, x.user, a)
			}
		}
	}
}

// TestPublishIsRefusedBeforeItsBodyIsRead sends bodies that cannot be read.
func TestPublishIsRefusedBeforeItsBodyIsRead(t *testing.T) {
	for _, target := range []string{"/pub?topic=t2", "/mpub?topic=t2", "/pub_ext?topic=t2&ext=%7B%7D", "/pubtrace?topic=t2", "/v1/topics/t2/messages"} {
		for _, user := range []string{"", "publisher"} {
			f := newFake("t2")
			s, _, tokens := guardedServer(t, f)
			read := false
			r := httptest.NewRequest("POST", target, readerFunc(func([]byte) (int, error) { read = true; return 0, io.ErrUnexpectedEOF }))
			if user != "" {
				r.Header.Set("Authorization", "Bearer "+tokens[user])
			}
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if want := map[string]int{"": 401, "publisher": 403}[user]; w.Code != want || read {
				t.Errorf("%s by %q: %d %s, body read: %v", target, user, w.Code, w.Body, read)
			}
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestHTTPCredentials(t *testing.T) {
	s, a, tokens := guardedServer(t, newFake("t"))
	basic := func(user, password string) string {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.SetBasicAuth(user, password)
		return r.Header.Get("Authorization")
	}
	for _, tt := range []struct {
		name, header string
		want         int
	}{
		{"password", basic("ops", opsPassword), 200},
		{"wrong password", basic("ops", "wrong password"), 401},
		{"password of another", basic("reader", opsPassword), 401},
		{"no password", basic("reader", ""), 401},
		{"unknown user", basic("nobody", opsPassword), 401},
		{"token as password", basic("ops", tokens["ops"]), 200},
		{"token of another as password", basic("ops", tokens["reader"]), 401},
		{"bearer in other letters", "bearer " + tokens["ops"], 200},
		{"empty bearer", "Bearer ", 401},
		{"another kind", "Digest " + tokens["ops"], 401},
		{"no kind", tokens["ops"], 401},
		{"long", "Bearer " + strings.Repeat("x", 20000), 401},
		{"bad base64", "Basic !!!", 401},
		{"the first administrator's secret, which is for access alone", "Bearer " + firstSecret, 401},
	} {
		if w := ask(s.Handler(), "GET", "/v1/topics", "", "Authorization", tt.header); w.Code != tt.want && w.Code != 429 {
			t.Errorf("%s: %d %s", tt.name, w.Code, w.Body)
		} else if w.Code == 401 && len(w.Header().Values("WWW-Authenticate")) != 2 {
			t.Errorf("%s: %v", tt.name, w.Header())
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/topics", nil)
	r.Header["Authorization"] = []string{"Bearer " + tokens["ops"], "Bearer " + tokens["reader"]}
	w := httptest.NewRecorder()
	if s.Handler().ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("two headers: %d", w.Code)
	}
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: "idle.example"}}
	for _, verified := range []bool{true, false} {
		r := httptest.NewRequest(http.MethodGet, "/v1/access/self", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
		want := http.StatusUnauthorized
		if verified {
			r.TLS.VerifiedChains, want = [][]*x509.Certificate{{cert}}, http.StatusOK
		}
		w := httptest.NewRecorder()
		if s.Handler().ServeHTTP(w, r); w.Code != want {
			t.Errorf("certificate, verified %v: %d", verified, w.Code)
		}
	}
	if err := a.Change(t.Context(), access.Change{Verb: access.DeleteUser, User: "reader"}); err != nil {
		t.Fatal(err)
	}
	if w := askAs(s.Handler(), tokens["reader"], "GET", "/v1/topics", ""); w.Code != http.StatusUnauthorized && w.Code != 429 {
		t.Errorf("a deleted user: %d", w.Code)
	}
}

func TestPathsThatTheNodeOpens(t *testing.T) {
	for _, open := range []bool{false, true} {
		s, _, _ := guardedServer(t, newFake("t"), func(o *Options) {
			o.AnonymousLookup, o.AnonymousMetrics, o.Metrics = open, open, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
			o.DetailedMetrics = o.Metrics
		})
		want := http.StatusUnauthorized
		if open {
			want = http.StatusOK
		}
		for _, h := range []http.Handler{s.Handler(), s.LookupHandler()} {
			for _, path := range []string{"/lookup?topic=t", "/nodes"} {
				if w := ask(h, "GET", path, ""); w.Code != want {
					t.Errorf("open %v: %s: %d", open, path, w.Code)
				}
			}
			if w := ask(h, "GET", "/topics", ""); w.Code != http.StatusUnauthorized {
				t.Errorf("open %v: /topics: %d", open, w.Code)
			}
		}
		if w := ask(s.Handler(), "GET", "/metrics", ""); w.Code != want {
			t.Errorf("open %v: /metrics: %d", open, w.Code)
		}
		if w := ask(s.Handler(), "GET", "/metrics/detailed", ""); w.Code != http.StatusUnauthorized { // it names clients
			t.Errorf("open %v: /metrics/detailed: %d", open, w.Code)
		}
	}
}

// TestUsersAreChangedByAdministratorsOnly applies while access control is off, too.
func TestUsersAreChangedByAdministratorsOnly(t *testing.T) {
	f := newFake("t")
	s, a, tokens := guardedServer(t, f)
	if err := a.Change(t.Context(), access.Change{Verb: access.Disable}); err != nil {
		t.Fatal(err)
	}
	h := s.Handler()
	if w := ask(h, "GET", "/v1/topics", ""); w.Code != http.StatusOK {
		t.Fatalf("access control is off: %d", w.Code)
	}
	const user = `{"name":"eve","rules":[{"right":"admin"}]}`
	for _, token := range []string{"", tokens["wrong"], tokens["reader"], tokens["manager"]} {
		if w := askAs(h, token, "POST", "/v1/access/users", user); w.Code/100 != 4 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	for _, token := range []string{"", tokens["wrong"], tokens["manager"]} { // it holds hashes of credentials
		if w := askAs(h, token, "GET", "/v1/snapshot", ""); w.Code != http.StatusUnauthorized && w.Code != http.StatusForbidden {
			t.Errorf("snapshot: %d", w.Code)
		}
	}
	if w := askAs(h, tokens["ops"], "GET", "/v1/snapshot", ""); w.Code == http.StatusUnauthorized || w.Code == http.StatusForbidden {
		t.Errorf("snapshot by an administrator: %d", w.Code)
	}
	if w := askAs(h, tokens["ops"], "POST", "/v1/access/users", user); w.Code != http.StatusCreated {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := askAs(h, firstSecret, "DELETE", "/v1/access/users/eve", ""); w.Code != http.StatusNoContent {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestSecretsAreNotRecorded sends every request that carries a secret, and searches the audit log
// and the answers for it.
func TestSecretsAreNotRecorded(t *testing.T) {
	f := newFake("t")
	s, a, tokens := guardedServer(t, f)
	h, ops := s.Handler(), tokens["ops"]
	const password = "open sesame 1"
	do := func(method, path, body string) string {
		t.Helper()
		w := askAs(h, ops, method, path, body)
		if method == "POST" && strings.Contains(path, "tokens") && w.Code == http.StatusCreated {
			return w.Body.String()
		}
		for _, secret := range []string{password, ops, "argon2"} {
			if strings.Contains(w.Body.String(), secret) {
				t.Errorf("%s %s answers a secret: %s", method, path, w.Body)
			}
		}
		return w.Body.String()
	}
	do("POST", "/v1/access/users", `{"name":"joe","password":"`+password+`"}`)
	do("POST", "/v1/access/users", `{"name":"joe","pass`+password+`":1}`)
	do("POST", "/v1/access/users/joe/password", `{"password":"`+password+`"}`)
	do("POST", "/v1/access/users/joe/grant", `{"password":"`+password+`"}`)
	do("POST", "/v1/access/users/joe/grant", `{"rules":[{"right":"publish","topic":"t"}]}`)
	do("POST", "/v1/access/nonsense?x="+ops, password)
	do("DELETE", "/v1/access/tokens/"+ops, "")
	do("POST", "/v1/topics/t/pause?reason="+ops, "")
	do("POST", "/topic/pause?topic=t&x="+ops, ops)
	created := do("POST", "/v1/access/users/joe/tokens", `{"description":"d"}`)
	_, secret, _ := strings.Cut(created, `"secret":"`)
	secret, _, _ = strings.Cut(secret, `"`)
	if who, err := guard.New(guard.Options{Directory: a.Directory}).Token(nil, secret, time.Now()); err != nil || who.User(a.Directory(), 0).Name != "joe" {
		t.Fatalf("the token that was made: %v %s", err, created)
	}
	acts := meta.JournalOf(&f.journal).Acts()
	if len(acts) < 9 {
		t.Errorf("only %d acts are recorded", len(acts))
	}
	granted := false
	for _, act := range acts {
		text := strings.Join([]string{act.Verb, act.Object, act.Request, act.Reason, act.Before, act.After, act.Agent}, "\n")
		for _, s := range []string{password, ops, secret, "argon2"} {
			if strings.Contains(text, s) {
				t.Errorf("recorded: %s", text)
			}
		}
		if act.Identity != "ops" {
			t.Errorf("recorded of %q: %s", act.Identity, text)
		}
		granted = granted || act.Object == "user joe" && act.Request == "grant joe, publish t"
	}
	if !granted {
		t.Error("it is not recorded which rule was granted")
	}
}

func TestAccessByTheClient(t *testing.T) {
	s, _, tokens := guardedServer(t, newFake("t"))
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	client := func(token string) *api.Client {
		c, err := api.NewClient(api.ClientOptions{Addresses: []string{srv.URL}, HTTP: srv.Client(), Authorization: "Bearer " + token})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ctx, c := t.Context(), client(tokens["ops"]).Access
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	u, err := c.CreateUser(ctx, api.CreateUser{Name: "joe", Certificates: []string{"joe.example"}, Rules: []api.Rule{{Right: "read"}}})
	must(err)
	if u.HasPassword || len(u.Rules) != 1 || u.Tokens != 0 {
		t.Errorf("%+v", u)
	}
	u, err = c.SetPassword(ctx, "joe", "password 1")
	must(err)
	if !u.HasPassword {
		t.Errorf("%+v", u)
	}
	token, err := c.CreateToken(ctx, "joe", api.CreateToken{Description: "d", ExpiresInMS: 3600_000})
	must(err)
	self, err := client(token.Secret).Access.Self(ctx)
	must(err)
	if self.User != "joe" || !self.Enabled || token.Expires == nil || token.Expired {
		t.Errorf("%+v %+v", self, token)
	}
	u, err = c.Grant(ctx, "joe", []api.Rule{{Right: "subscribe", Topic: "t", Channel: "*"}})
	must(err)
	if len(u.Rules) != 2 {
		t.Errorf("%+v", u)
	}
	_, err = c.Revoke(ctx, "joe", []api.Rule{{Right: "read"}})
	must(err)
	all, err := c.Tokens(ctx, "joe")
	must(err)
	if len(all) != 1 || all[0].Secret != "" || all[0].Description != "d" {
		t.Errorf("%+v", all)
	}
	gone, err := c.PlanRevokeToken(ctx, token.ID)
	must(err)
	if gone.Name != "joe" || gone.Tokens != 1 || len(gone.Revoked) != 1 || gone.Revoked[0].ID != token.ID {
		t.Errorf("the revocation would remove %+v", gone)
	}
	gone, err = c.PlanDeleteUser(ctx, "joe")
	must(err)
	if gone.Name != "joe" || len(gone.Rules) != 1 || len(gone.Revoked) != 1 || gone.Revoked[0].Description != "d" {
		t.Errorf("the deletion would remove %+v", gone)
	}
	must(c.RevokeToken(ctx, token.ID)) // neither was carried out
	must(c.DeleteUser(ctx, "joe"))
	status, err := c.Status(ctx)
	must(err)
	if !status.Enabled || !status.Administrator || status.Users != 7 || status.Tokens != 7 {
		t.Errorf("%+v", status)
	}
	for _, tt := range []struct {
		err  error
		want failure.Code
	}{
		{c.DeleteUser(ctx, "ops"), failure.Precondition},
		{c.DeleteUser(ctx, "joe"), failure.NotFound},
		{second(c.PlanDeleteUser(ctx, "ops")), failure.Precondition},
		{second(c.PlanDeleteUser(ctx, "joe")), failure.NotFound},
		{second(c.PlanRevokeToken(ctx, "0")), failure.NotFound},
		{second(client(tokens["reader"]).Access.PlanDeleteUser(ctx, "idle")), failure.Forbidden},
		{c.RevokeToken(ctx, "0"), failure.NotFound},
		{second(c.CreateUser(ctx, api.CreateUser{Name: "ops"})), failure.Exists},
		{second(c.CreateUser(ctx, api.CreateUser{Name: "x", Password: "short"})), failure.Invalid},
		{second(c.CreateUser(ctx, api.CreateUser{Name: "a b"})), failure.Invalid},
		{second(c.Grant(ctx, "reader", []api.Rule{{Right: "own"}})), failure.Invalid},
		{second(c.Grant(ctx, "reader", nil)), failure.Invalid},
		{second(c.Revoke(ctx, "reader", []api.Rule{{Right: "publish", Topic: "t"}})), failure.NotFound},
		{second(c.CreateToken(ctx, "joe", api.CreateToken{})), failure.NotFound},
		{second(c.CreateToken(ctx, "ops", api.CreateToken{ExpiresInMS: -1})), failure.Invalid},
		{second(c.Tokens(ctx, "joe")), failure.NotFound},
		{second(client(tokens["reader"]).Access.Users(ctx)), failure.Forbidden},
		{second(client("x").Access.Users(ctx)), failure.Unauthenticated},
	} {
		if api.CodeOf(tt.err) != tt.want {
			t.Errorf("%v, want %s", tt.err, tt.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

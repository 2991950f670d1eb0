package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/brokerd/brokerd/internal/complaint"
	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/admin/v1"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/fate"
	"github.com/brokerd/brokerd/pkg/guard"
	"github.com/brokerd/brokerd/pkg/meta"
)

// gate lets requests in that have the right which their endpoint needs.
type gate struct {
	guard *guard.Guard
	// match returns the pattern of the endpoint of next for a request; "" if there is none.
	match func(*http.Request) string
	needs map[string]need
	open  map[string]bool // patterns that require no right on this address, overriding needs
	next  func(http.ResponseWriter, *http.Request) string

	refused    func() // is called for each request that is not let in
	record     func(context.Context, meta.Act, fate.Fate)
	log        *slog.Logger
	complaints complaint.Book
	recorded   complaint.Rare[refusal]
}

// A change that a user may not make is recorded once in refusalEvery for each user and endpoint, and at most
// maxRefusals are in that time: otherwise a user without rights could fill the audit log.
const (
	refusalEvery = time.Hour
	maxRefusals  = 100
)

// refusal is a change that a user tried.
type refusal struct{ user, pattern string }

// serve answers a request, or refuses it before anything is read of its body or recorded.
func (g *gate) serve(w http.ResponseWriter, r *http.Request) string {
	pattern := g.match(r)
	needed, known := g.needs[pattern]
	now, d := time.Now(), g.guard.Directory()
	if d.On() && anonymous(r, now) {
		// Clients without credentials keep no connection between their requests.
		w.Header().Set("Connection", "close")
	}
	switch {
	case g.open[pattern] || needed.open:
		return g.next(w, r)
	case pattern == "":
		needed = anyUser // answered with 404
	case !known:
		needed = admin // a test ensures that there is none
	}
	checked := d.On() || needed.always || needed.secret && len(d.Users()) > 0
	if !checked && r.Header.Get("Authorization") == "" && r.TLS == nil {
		return g.next(w, r)
	}
	who, err := g.identify(r, now, checked)
	caller := guard.Caller{Who: who, Directory: d, At: now}
	if checked {
		if err == nil {
			err = permit(caller, needed, pattern, r)
		}
		if err != nil {
			g.refuse(w, r, err)
			g.recordRefusal(r, caller, pattern, err)
			return ""
		}
	}
	return g.next(w, r.WithContext(guard.WithCaller(r.Context(), caller)))
}

// recordRefusal adds to the audit log that a user tried a change without the right to it. Callers without an identity
// are only in the node's log.
func (g *gate) recordRefusal(r *http.Request, c guard.Caller, pattern string, err error) {
	if c.Name() == "" || failure.Of(err).Code != failure.Forbidden || !changes(r, pattern) || !g.recorded.IsNew(refusal{c.Name(), pattern}, c.At) {
		return
	}
	a := actOf(r, pattern, c)
	a.Request, a.Status = clipped(err.Error(), maxRequest), http.StatusForbidden
	g.record(r.Context(), a, fate.Refused)
}

// permit returns why a caller may not send a request; nil if he may.
func permit(c guard.Caller, n need, pattern string, r *http.Request) error {
	if n.always && c.Who.First() {
		return nil
	}
	user := c.Name()
	if user == "" || c.Who.First() {
		return failure.WrongCredentials
	}
	if n.known {
		return nil
	}
	want := access.Demand{Right: n.right}
	if n.of == atTopic || n.of == atChannel {
		if want.Topic = nameOf(r, pattern, "topic"); want.Topic == "" {
			want.Topic = "*" // a missing name is reported by the endpoint, to callers with rights for all names
		}
	}
	if n.of == atChannel {
		want.Channel = nameOf(r, pattern, "channel")
	}
	ok := false
	switch {
	case n.of == inBody:
		ok = c.Directory.May(user, n.right, "")
	case n.of == atTopic && n.right == access.Subscribe:
		ok = c.Directory.May(user, n.right, want.Topic)
	default:
		return c.Permit(want)
	}
	if !ok {
		return guard.Forbid(user, access.Rule(want))
	}
	return nil
}

// nameOf returns the name in the path of a request or, if the pattern has none, in its query, as
// the endpoints read it.
func nameOf(r *http.Request, pattern, what string) string {
	if name, ok := nameInPath(r, pattern, what); ok {
		return name
	}
	return r.URL.Query().Get(what)
}

// nameInPath returns the name in the path of a request, and whether the pattern has one there.
func nameInPath(r *http.Request, pattern, what string) (name string, ok bool) {
	_, path, _ := strings.Cut(pattern, " ")
	parts := strings.Split(r.URL.EscapedPath(), "/")
	for i, p := range strings.Split(path, "/") {
		if p == "{"+what+"}" && i < len(parts) {
			name, _ = url.PathUnescape(parts[i]) // matched, so it can be
			return name, true
		}
	}
	return "", false
}

// identify returns the caller of a request; nil and no error if it has no credentials. Passwords
// are checked only if an identity is required.
func (g *gate) identify(r *http.Request, now time.Time, needed bool) (*guard.Identity, error) {
	shown := r.Header.Values("Authorization")
	from := remoteAddr(r)
	switch {
	case len(shown) > 1:
		return nil, failure.WrongCredentials
	case len(shown) == 1 && shown[0] != "":
		kind, text, _ := strings.Cut(shown[0], " ")
		if strings.EqualFold(kind, "Bearer") {
			return g.guard.Token(from, strings.TrimSpace(text), now)
		}
		user, password, ok := r.BasicAuth()
		switch {
		case !ok:
			return nil, failure.WrongCredentials
		case !needed && !access.IsToken(password):
			return nil, nil
		}
		return g.guard.Password(r.Context(), from, user, password, now)
	}
	return guard.Certificate(guard.Verified(r.TLS)), nil
}

// anonymous reports whether a request shows no credentials that could be valid.
func anonymous(r *http.Request, now time.Time) bool {
	c := guard.Verified(r.TLS)
	return r.Header.Get("Authorization") == "" && (c == nil || now.After(c.NotAfter))
}

// remoteAddr returns the client's address; nil if the request did not arrive over TCP.
func remoteAddr(r *http.Request) net.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return nil
	}
	return net.TCPAddrFromAddrPort(at)
}

// refuse answers a request that is not let in.
func (g *gate) refuse(w http.ResponseWriter, r *http.Request, err error) {
	g.refused()
	if errors.Is(err, failure.WrongCredentials) {
		w.Header().Set("Connection", "close")
	}
	f := failure.Of(err)
	e := api.Errorf(f.Code, "%w", err)
	e.Hint, e.Fate = f.Hint, "refused"
	switch f.Code {
	case failure.Unauthenticated:
		w.Header().Add("WWW-Authenticate", `Bearer realm="brokerd"`)
		w.Header().Add("WWW-Authenticate", `Basic realm="brokerd", charset="UTF-8"`)
		e = api.Errorf(f.Code, "a valid token, password or client certificate is required")
		e.Hint, e.Fate = "with brokerctl: --token-file FILE, or set BROKERCTL_TOKEN, or --context NAME: with --addr, the context in use is not used unless it is named; for the first administrator the token is in the file first-administrator in the data directory of the node that is asked", "refused"
	case failure.Throttled:
		w.Header().Set("Retry-After", "5")
	default:
	}
	if !v1.Owns(r.URL.Path) {
		w.Header().Set("Cache-Control", "no-store")
	}
	g.complaints.Warn(g.log, time.Now(), "HTTP request refused by access control", "remote", r.RemoteAddr, "method", r.Method,
		"path", access.Redact(r.URL.Path), "error", err)
	Refuse(w, r, f.Word, e)
}

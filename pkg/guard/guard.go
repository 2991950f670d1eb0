package guard

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/access"
	"github.com/brokerd/brokerd/pkg/failure"
)

// Bounds of checking passwords.
const (
	slots        = 2  // passwords that are hashed at a time, 19 MiB each
	queued       = 16 // that wait for it
	rememberFor  = time.Minute
	rememberMost = 512
)

// Options are what a Guard works with. Directory is required.
type Options struct {
	// Directory returns the current users and rules. It is called for each publish.
	Directory func() *access.Directory
	// Changed returns a channel that is closed when the directory may have changed. nil: it
	// never does.
	Changed func() <-chan struct{}
	// First reports whether a text is the secret with which the first administrator is
	// created. nil: no text is.
	First func(text string) bool
}

// Guard checks credentials. Its methods may be called by many goroutines; a nil Guard has no
// users, and access control is off.
type Guard struct {
	o        Options
	hashing  chan struct{} // holds a value for each password that is hashed
	waiting  atomic.Int32  // for that
	failures failures
	key      [32]byte // of the hashes in right

	mu    sync.Mutex // guards right
	right map[[32]byte]time.Time
}

// New returns a Guard.
func New(o Options) *Guard {
	g := &Guard{o: o, hashing: make(chan struct{}, slots), right: map[[32]byte]time.Time{}}
	_, _ = rand.Read(g.key[:]) // it never fails
	if g.o.First == nil {
		g.o.First = func(string) bool { return false }
	}
	return g
}

// Directory returns the current users and rules.
func (g *Guard) Directory() *access.Directory {
	if g == nil {
		return nil
	}
	return g.o.Directory()
}

// Changed returns a channel that is closed when the directory may have changed; nil: it never
// does.
func (g *Guard) Changed() <-chan struct{} {
	if g == nil || g.o.Changed == nil {
		return nil
	}
	return g.o.Changed()
}

// Identity is what a credential proved about a client. It does not change.
type Identity struct {
	token *access.Token
	names []string // of a verified certificate
	until int64    // when the certificate expires, ns since 1970; 0: never
	user  string   // the user with that password
	first bool     // the secret of the first administrator was given
}

// firstAdministrator is the name in records for a client that used the secret of the
// first administrator.
const firstAdministrator = "first-administrator"

// First reports whether the client used the secret of the first administrator. It
// is then not a user.
func (id *Identity) First() bool { return id != nil && id.first }

// User returns the user in a directory that the identity belongs to, at a moment in ns since
// 1970; nil: there is none, or the credential is no longer valid.
func (id *Identity) User(d *access.Directory, now int64) *access.User {
	switch {
	case id == nil || id.first:
		return nil
	case id.token != nil:
		t := d.Token(id.token.ID)
		if t == nil || t.Hash != id.token.Hash || t.Expired(now) {
			return nil
		}
		return d.User(t.User)
	case id.names != nil:
		if id.until != 0 && now > id.until {
			return nil
		}
		return d.ByCertificate(id.names)
	}
	return d.User(id.user)
}

// Expires returns when the identity expires, ns since 1970; 0: never.
func (id *Identity) Expires() int64 {
	switch {
	case id == nil:
		return 0
	case id.token != nil:
		return id.token.Expires
	}
	return id.until
}

// Token returns the identity of a token. from is the client's address.
func (g *Guard) Token(from net.Addr, text string, now time.Time) (*Identity, error) {
	t, err := g.Directory().ByToken(text, now.UnixNano())
	if err == nil {
		return &Identity{token: t}, nil
	}
	if g.o.First(text) {
		return &Identity{first: true}, nil
	}
	return nil, g.failures.fail(placeOf(from), now, fmt.Errorf("%w: %w", failure.WrongCredentials, err))
}

// Password returns who shows a name and a password. It takes some hundredths of a second, and
// waits until ctx ends while others are checked. A token in place of the password counts, too.
func (g *Guard) Password(ctx context.Context, from net.Addr, user, password string, now time.Time) (*Identity, error) {
	if access.IsToken(password) {
		id, err := g.Token(from, password, now)
		if err == nil && !id.first && id.token.User != user {
			return nil, g.failures.fail(placeOf(from), now, fmt.Errorf("%w: the token is not of that user", failure.WrongCredentials))
		}
		return id, err
	}
	// Before the password is compared with those that are remembered: otherwise an address with too many failures could
	// go on guessing, as fast as it can, while the user is logged in elsewhere.
	if !g.failures.may(placeOf(from), now) {
		return nil, failure.ManyFailures
	}
	u := g.Directory().User(user)
	mark := g.mark(u, password)
	if u != nil && u.Password != "" && g.known(mark, now) {
		return &Identity{user: user}, nil
	}
	var ok bool
	if err := g.Hashing(ctx, func() { ok = access.HasPassword(u, password) }); err != nil {
		return nil, err
	}
	if !ok {
		return nil, g.failures.fail(placeOf(from), now, fmt.Errorf("%w: user or password", failure.WrongCredentials))
	}
	g.remember(mark, now)
	return &Identity{user: user}, nil
}

// Hashing calls f, which hashes a password, when it is its turn. failure.ManyPasswords: too many
// wait, or ctx ended.
func (g *Guard) Hashing(ctx context.Context, f func()) error {
	if g.waiting.Add(1) > slots+queued {
		g.waiting.Add(-1)
		return failure.ManyPasswords
	}
	defer g.waiting.Add(-1)
	select {
	case g.hashing <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", failure.ManyPasswords, context.Cause(ctx))
	}
	defer func() { <-g.hashing }()
	f()
	return nil
}

// Verified returns the certificate that the client of a connection has shown, if it was verified; nil: none was,
// or state is nil.
func Verified(state *tls.ConnectionState) *x509.Certificate {
	if state == nil || len(state.VerifiedChains) == 0 {
		return nil
	}
	return state.PeerCertificates[0]
}

// Certificate returns the identity of a verified certificate; nil: there is no certificate, or it
// has no names.
func Certificate(c *x509.Certificate) *Identity {
	if c == nil {
		return nil
	}
	seen := map[string]bool{"": true}
	var names []string
	add := func(all ...string) {
		for _, name := range all {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	add(c.Subject.CommonName)
	add(c.DNSNames...)
	add(c.EmailAddresses...)
	for _, u := range c.URIs {
		add(u.String())
	}
	if names == nil {
		return nil
	}
	return &Identity{names: names, until: unixNano(c.NotAfter)}
}

// unixNano returns a time in ns since 1970; 0 if it is beyond their range, as in certificates that do not expire.
func unixNano(t time.Time) int64 {
	if ns := t.UnixNano(); time.Unix(0, ns).Equal(t) {
		return ns
	}
	return 0
}

// mark is what is kept of a right password: a keyed hash of it and of what is stored of it, so
// that another password of the user is another mark.
func (g *Guard) mark(u *access.User, password string) (mark [32]byte) {
	h := hmac.New(sha256.New, g.key[:])
	if u != nil {
		_, _ = fmt.Fprintf(h, "%q %q ", u.Name, u.Password) // a hash takes all
	}
	_, _ = h.Write([]byte(password)) // likewise
	h.Sum(mark[:0])
	return mark
}

func (g *Guard) known(mark [32]byte, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	until, ok := g.right[mark]
	return ok && now.Before(until)
}

func (g *Guard) remember(mark [32]byte, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.right) >= rememberMost {
		for m, until := range g.right {
			if !now.Before(until) {
				delete(g.right, m)
			}
		}
	}
	if len(g.right) < rememberMost {
		g.right[mark] = now.Add(rememberFor)
	}
}

// Limits of failures: a burst per address, and the time after which one more is allowed.
const (
	failureBurst = 10
	failureEach  = 500 * time.Millisecond
	failurePlace = 4096 // addresses that are remembered
)

// failures counts wrong credentials by address.
type failures struct {
	mu   sync.Mutex // guards used
	used map[netip.Prefix]time.Time
}

// fail notes a failure and returns it, or failure.ManyFailures where the address has too many.
func (f *failures) fail(from netip.Prefix, now time.Time, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.used == nil {
		f.used = map[netip.Prefix]time.Time{}
	}
	if len(f.used) >= failurePlace {
		for p, until := range f.used {
			if !until.After(now) {
				delete(f.used, p)
			}
		}
	}
	if len(f.used) >= failurePlace {
		from = netip.Prefix{} // the addresses that there is no room for share one
	}
	used := f.used[from]
	if used.Before(now) {
		used = now
	}
	if used.Sub(now) >= failureBurst*failureEach {
		return failure.ManyFailures
	}
	f.used[from] = used.Add(failureEach)
	return err
}

// may reports whether an address may try again.
func (f *failures) may(from netip.Prefix, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.used[from]; !known && len(f.used) >= failurePlace {
		from = netip.Prefix{}
	}
	return f.used[from].Sub(now) < failureBurst*failureEach
}

// placeOf returns what counts as one address: an IPv4 address, or the /64 of an IPv6 address.
// Unix sockets are one.
func placeOf(from net.Addr) netip.Prefix {
	at, ok := from.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	a := at.AddrPort().Addr().Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // the address has reached the limit
	return p
}

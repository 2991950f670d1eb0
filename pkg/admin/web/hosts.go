package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/brokerd/brokerd/pkg/admin/api"
	"github.com/brokerd/brokerd/pkg/failure"
)

// anyHost in a list of hosts allows all.
const anyHost = "*"

// privateSuffixes are domains that do not exist in the public DNS.
var privateSuffixes = []string{".localhost", ".local", ".internal", ".svc"}

// Hosts are the names under which a node may be addressed. A web page whose owner lets its name
// resolve to a node's address could otherwise read and change everything through the browser of
// someone who can reach the node. Such a name is in the public DNS, so names that cannot be are
// always allowed: addresses, names of one word, and private domains.
type Hosts struct {
	all   bool
	names []string // in lower case
}

// NewHosts returns Hosts that allow names, and the names below those that begin with a dot.
func NewHosts(names []string) Hosts {
	var h Hosts
	for _, name := range names {
		h.all = h.all || name == anyHost
		h.names = append(h.names, canonicalHost(name))
	}
	return h
}

// allows reports whether a request may name this host; "": it names none.
func (h Hosts) allows(host string) bool {
	if split, _, err := net.SplitHostPort(host); err == nil {
		host = split
	}
	host = canonicalHost(strings.Trim(host, "[]"))
	if h.all || !strings.Contains(host, ".") || slices.Contains(h.names, host) {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	under := func(suffix string) bool { return strings.HasPrefix(suffix, ".") && strings.HasSuffix(host, suffix) }
	return slices.ContainsFunc(privateSuffixes, under) || slices.ContainsFunc(h.names, under)
}

func canonicalHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// Guard refuses requests for other hosts. Exempt are probes, requests over TLS, whose certificate
// has the name, and over a unix socket, which browsers cannot use.
func (h Hosts) Guard(next http.Handler, refuse Refuse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if r.TLS != nil || IsProbe(r.URL.Path) || r.URL.Path == "/ping" || h.allows(r.Host) || local != nil && local.Network() == "unix" {
			next.ServeHTTP(w, r)
			return
		}
		e := api.Errorf(failure.Forbidden, "host name %q is not allowed on this node", r.Host[:min(len(r.Host), maxHostShown)])
		e.Hint = "use the node's address, or add the name to http-allowed-hosts"
		refuse(w, r, "HOST_NOT_ALLOWED", e)
	})
}

// maxHostShown limits how much of a host name an error repeats.
const maxHostShown = 64

// Networks are networks of clients.
type Networks []netip.Prefix

// Has reports whether a request comes from one of the networks, or over a unix socket.
func (n Networks) Has(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local != nil && local.Network() == "unix" {
		return true
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && slices.ContainsFunc(n, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap()) })
}

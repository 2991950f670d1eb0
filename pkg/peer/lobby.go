package peer

import (
	"errors"
	"net"
	"sync"
)

// lobby counts the connections of those who have not shown that they are members, in
// all and for each host.
type lobby struct {
	max, maxHost int

	mu    sync.Mutex     // guards what follows
	all   int            // connections
	hosts map[string]int // of each host; none is 0
}

func newLobby(max, maxHost int) *lobby {
	return &lobby{max: max, maxHost: maxHost, hosts: map[string]int{}}
}

// enter takes a place for a connection from an address, where one is left. leave
// gives it back; it may be called again.
func (l *lobby) enter(from net.Addr) (leave func(), ok bool) {
	host := from.String()
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.max || l.hosts[host] >= l.maxHost {
		return nil, false
	}
	l.all++
	l.hosts[host]++
	return sync.OnceFunc(func() { l.left(host) }), true
}

func (l *lobby) left(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.hosts[host]--; l.hosts[host] == 0 {
		delete(l.hosts, host)
	}
}

var errTooMany = errors.New("too many connections from members")

// place is what one accepted connection holds: a place in the lobby until it has
// introduced itself as a member's, and one among the members from a moment before.
type place struct {
	leave   func()        // the lobby; it may be called again
	members chan struct{} // holds one for each member's connection
	seated  bool
}

// seat takes a place among the members, where one is left.
func (p *place) seat() bool {
	select {
	case p.members <- struct{}{}:
		p.seated = true
	default:
	}
	return p.seated
}

// free gives back all that the connection holds.
func (p *place) free() {
	p.leave()
	if p.seated {
		<-p.members
	}
}

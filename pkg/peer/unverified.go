package peer

import (
	"errors"
	"net"
	"sync"
)

// lobby counts the connections whose other end has not proved yet that it is a member, in total and
// for each host.
type lobby struct {
	max, maxHost int

	mu    sync.Mutex     // guards what follows
	all   int            // connections
	hosts map[string]int // by host; no entry is 0
}

func newLobby(max, maxHost int) *lobby {
	return &lobby{max: max, maxHost: maxHost, hosts: map[string]int{}}
}

// enter reserves a slot for a connection from an address if one is free. leave releases the slot;
// it may be called again.
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

// place is what one accepted connection occupies: a place in the lobby until it has introduced
// itself as a member's, and a place among the members from just before that.
type place struct {
	leave   func()        // leaves the lobby; may be called again
	members chan struct{} // holds one for each member's connection
	seated  bool
}

// seat reserves a slot among the members' if one is free.
func (p *place) seat() bool {
	select {
	case p.members <- struct{}{}:
		p.seated = true
	default:
	}
	return p.seated
}

// free releases all slots of the connection.
func (p *place) free() {
	p.leave()
	if p.seated {
		<-p.members
	}
}

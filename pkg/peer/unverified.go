package peer

import (
	"errors"
	"net"
	"sync"
)

// unverified counts the connections whose other end has not proved yet that it is a member, in total and
// for each host.
type unverified struct {
	max, maxHost int

	mu    sync.Mutex     // guards what follows
	all   int            // connections
	hosts map[string]int // by host; no entry is 0
}

func newUnverified(max, maxHost int) *unverified {
	return &unverified{max: max, maxHost: maxHost, hosts: map[string]int{}}
}

// enter reserves a slot for a connection from an address if one is free. leave releases the slot;
// it may be called again.
func (l *unverified) enter(from net.Addr) (leave func(), ok bool) {
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

func (l *unverified) left(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.hosts[host]--; l.hosts[host] == 0 {
		delete(l.hosts, host)
	}
}

var errTooMany = errors.New("too many connections from members")

// place is what one accepted connection occupies: a slot among the unverified connections until it has introduced
// itself as a member's, and a place among the members from just before that.
type place struct {
	leave    func()        // releases the slot among the unverified connections; may be called again
	members  chan struct{} // holds one for each member's connection
	admitted bool
}

// admit reserves a slot among the members' if one is free.
func (p *place) admit() bool {
	select {
	case p.members <- struct{}{}:
		p.admitted = true
	default:
	}
	return p.admitted
}

// free releases all slots of the connection.
func (p *place) free() {
	p.leave()
	if p.admitted {
		<-p.members
	}
}

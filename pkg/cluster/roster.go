package cluster

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/cluster/formation"
	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
	"github.com/brokerd/brokerd/pkg/meta/raftstore"
	"github.com/brokerd/brokerd/pkg/peer"
)

// roster holds the members and the lines to them.
type roster struct {
	self      meta.NodeID
	transport *peer.Transport
	run       func(func())

	members atomic.Pointer[map[meta.NodeID]string] // address of each; the map is immutable

	mu    sync.RWMutex // guards lines
	lines map[lineKey]*line
}

type lineKey struct {
	node  meta.NodeID
	class peer.Class
}

func newRoster(self meta.NodeID, t *peer.Transport, run func(func())) *roster {
	r := &roster{self: self, transport: t, run: run, lines: map[lineKey]*line{}}
	r.members.Store(&map[meta.NodeID]string{})
	return r
}

// knows reports whether a node is a member, to this node's knowledge.
func (r *roster) knows(id meta.NodeID) bool {
	_, ok := (*r.members.Load())[id]
	return ok
}

// line returns the line to a node, which may be unknown.
func (r *roster) line(id meta.NodeID, class peer.Class) *line {
	k := lineKey{id, class}
	if l := r.find(k); l != nil {
		return l
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.lines[k]
	if l == nil {
		l = &line{run: r.run, links: map[*link]struct{}{}}
		l.dial = func(address string, up, down func(uint64)) *peer.Peer {
			return r.transport.Peer(peer.Node(id), class, address, peer.OnUp(up), peer.OnDown(down))
		}
		l.move((*r.members.Load())[id]) // no old connection to wait for
		r.lines[k] = l
	}
	return l
}

// set replaces the members. A line created concurrently either has the old address and is updated
// afterwards, or has the new one.
func (r *roster) set(now map[meta.NodeID]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members.Store(&now)
}

func (r *roster) find(k lineKey) *line {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.lines[k]
}

// event passes events of the transport to the lines.
func (r *roster) event(e peer.Event) {
	if e.Inbound || e.Kind != peer.EventRefused && e.Kind != peer.EventFailed {
		return
	}
	if l := r.find(lineKey{meta.NodeID(e.Node), e.Class}); l != nil {
		l.attempted(e.Address, e.Kind == peer.EventRefused)
	}
}

// answers reports whether there is a connection to a node.
func (r *roster) answers(id meta.NodeID) bool {
	l := r.find(lineKey{id, peer.ClassForward})
	return l != nil && l.connected()
}

// hurry makes all lines to a node connect now.
func (r *roster) hurry(id meta.NodeID) {
	for _, class := range []peer.Class{peer.ClassReplication, peer.ClassForward} {
		if l := r.find(lineKey{id, class}); l != nil {
			l.hurry()
		}
	}
}

// follow updates the members and their addresses from the metadata and the Raft configuration
// until ctx ends. It holds a connection for requests to each. It calls then after each update.
func (r *roster) follow(ctx context.Context, s *raftstore.Store, then func()) {
	for {
		changed := s.Changed()
		r.update(membersOf(s))
		then()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// membersOf returns the members with their addresses: registered nodes and those being admitted. A
// member whose address was taken over has none.
func membersOf(s *raftstore.Store) map[meta.NodeID]string {
	out := map[meta.NodeID]string{}
	for _, m := range s.Members().Configuration().Members {
		out[m.ID] = m.Address
	}
	for _, n := range s.Nodes() {
		if n.ClusterAddress != "" && !formation.AddressUnknown(out[n.ID]) {
			out[n.ID] = n.ClusterAddress
		}
	}
	for id, address := range out {
		if formation.AddressUnknown(address) {
			out[id] = ""
		}
	}
	return out
}

// update updates the lines to the members. It is not safe for concurrent use.
func (r *roster) update(now map[meta.NodeID]string) {
	was := *r.members.Load()
	if maps.Equal(was, now) {
		return
	}
	r.set(now)
	for id, address := range now {
		if id == r.self {
			continue
		}
		l := r.line(id, peer.ClassForward)
		if _, known := was[id]; !known {
			l.hold(1)
		}
		l.move(address)
		if l := r.find(lineKey{id, peer.ClassReplication}); l != nil {
			l.move(address)
		}
	}
	for id := range was {
		if _, still := now[id]; still || id == r.self {
			continue
		}
		l := r.line(id, peer.ClassForward)
		l.hold(-1)
		l.move("")
		if l := r.find(lineKey{id, peer.ClassReplication}); l != nil {
			l.move("")
		}
	}
}

// Follow implements coord.Peers.
func (r *roster) Follow(node meta.NodeID, e coord.LinkEvents) coord.Link {
	return r.line(node, peer.ClassReplication).follow(e)
}

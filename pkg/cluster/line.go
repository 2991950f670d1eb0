package cluster

import (
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// line is the path to one node for one class of traffic, shared by its users. It outlives
// connections and changes of the node's address.
//
// Notifications are sent from a separate goroutine, which exists only while there are any, because
// callers may hold locks that the receivers need.
type line struct {
	dial func(address string, up, down func(session uint64)) *peer.Peer
	run  func(func()) // starts a goroutine

	way atomic.Pointer[peer.Peer] // nil: no address is known; set under mu

	mu         sync.Mutex // guards the fields below
	address    string
	generation uint64 // of way
	session    uint64 // in use; 0: none
	refused    bool   // none is in use, and the last attempt was refused
	holds      int    // of way
	links      map[*link]struct{}
	unsent     []func() // done functions of calls that were not sent
	telling    bool     // a goroutine sends notifications
}

// link is one user's part of a line: a coord.Link.
type link struct {
	line   *line
	events coord.LinkEvents
	in     atomic.Pointer[linkSession] // nil: not connected
	closed atomic.Bool

	// The last notification to the user; guarded by line.mu.
	up      uint64 // session
	refused bool
}

// linkSession is one session as used by a link.
type linkSession struct {
	way     *peer.Peer
	session uint64
}

// move changes the address; "" if the node is unknown. It waits for the end of the old connection.
// It is not safe for concurrent use on one line.
func (l *line) move(address string) {
	l.mu.Lock()
	same := address == l.address
	l.address = address
	old := l.way.Load()
	l.mu.Unlock()
	if same {
		return
	}
	if old != nil {
		old.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generation++
	generation := l.generation
	l.session, l.refused = 0, false
	var way *peer.Peer
	if address != "" {
		way = l.dial(address, func(session uint64) { l.became(generation, session) }, func(uint64) { l.became(generation, 0) })
		for range l.holds {
			way.Hold()
		}
	}
	l.way.Store(way)
	l.tellLocked()
}

// became records that a session began or, with 0, ended.
func (l *line) became(generation, session uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if generation != l.generation {
		return
	}
	l.session, l.refused = session, false
	l.tellLocked()
}

// attempted records a failed attempt to connect.
func (l *line) attempted(address string, refused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if address != l.address || l.session != 0 {
		return
	}
	l.refused = refused
	l.tellLocked()
}

// hold requests the connection even without calls (n = 1), or no longer (n = -1).
func (l *line) hold(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holdLocked(n)
}

func (l *line) holdLocked(n int) {
	l.holds += n
	way := l.way.Load()
	switch {
	case way == nil:
	case n > 0:
		way.Hold()
	default:
		way.Release()
	}
}

// hurry triggers the next attempt to connect now.
func (l *line) hurry() {
	if way := l.way.Load(); way != nil {
		way.Hurry()
	}
}

// connected reports whether a session exists.
func (l *line) connected() bool {
	if way := l.way.Load(); way != nil {
		_, ok := way.Connected()
		return ok
	}
	return false
}

// follow opens a link.
func (l *line) follow(e coord.LinkEvents) *link {
	k := &link{line: l, events: e}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.links[k] = struct{}{}
	l.holdLocked(1)
	l.tellLocked()
	return k
}

// call makes a call in the current session.
func (l *line) call(kind uint8, payload [][]byte, done func([]byte, error)) {
	way := l.way.Load()
	if way == nil {
		l.later(func() { done(nil, failure.UnknownNode) })
		return
	}
	if err := way.Send(0, kind, payload, done); err != nil {
		l.later(func() { done(nil, err) })
	}
}

// later calls f from the notifying goroutine.
func (l *line) later(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsent = append(l.unsent, f)
	l.tellLocked()
}

// tellLocked starts the notifying goroutine if necessary.
func (l *line) tellLocked() {
	if !l.telling {
		l.telling = true
		l.run(l.tell)
	}
}

// tell sends notifications until there are none left.
func (l *line) tell() {
	for {
		todo := l.due()
		if len(todo) == 0 {
			return
		}
		for _, f := range todo {
			f()
		}
	}
}

// due returns the pending notifications: first the outcomes of calls that were not sent, so that
// the end of a session follows the last of its calls.
func (l *line) due() []func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	todo := l.unsent
	l.unsent = nil
	for k := range l.links {
		todo = k.dueLocked(todo, l.way.Load(), l.session, l.refused)
	}
	l.telling = len(todo) > 0
	return todo
}

// dueLocked adds the notifications of the link's user. line.mu is held.
func (k *link) dueLocked(todo []func(), way *peer.Peer, session uint64, refused bool) []func() {
	if k.up != session && k.up != 0 {
		k.up = 0
		todo = append(todo, func() { k.ended(false) })
	}
	if session != 0 && k.up == 0 {
		k.up, k.refused = session, false
		todo = append(todo, func() { k.began(&linkSession{way, session}) })
	}
	if session == 0 && refused && !k.refused {
		k.refused = true
		todo = append(todo, func() { k.ended(true) })
	}
	return todo
}

func (k *link) began(t *linkSession) {
	if k.closed.Load() {
		return
	}
	k.in.Store(t)
	k.events.Up()
}

func (k *link) ended(refused bool) {
	if k.closed.Load() {
		return
	}
	k.in.Store(nil)
	k.events.Down(refused)
}

// Go implements coord.Link.
func (k *link) Go(kind uint8, payload [][]byte, done func(reply []byte, err error)) {
	err := errNoSession
	if t := k.in.Load(); t != nil {
		err = t.way.Send(t.session, kind, payload, done)
	}
	if err != nil {
		k.line.later(func() { done(nil, err) })
	}
}

// Gatherer returns the connection of the current session; nil if there is none.
func (k *link) Gatherer() vfs.Gatherer {
	if t := k.in.Load(); t != nil {
		return t.way.Gatherer()
	}
	return nil
}

// Close implements coord.Link.
func (k *link) Close() {
	if k.closed.Swap(true) {
		return
	}
	k.in.Store(nil)
	k.line.mu.Lock()
	defer k.line.mu.Unlock()
	delete(k.line.links, k)
	k.line.holdLocked(-1)
}

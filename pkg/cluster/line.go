package cluster

import (
	"sync"
	"sync/atomic"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/failure"
	"github.com/brokerd/brokerd/pkg/peer"
	"github.com/brokerd/brokerd/pkg/vfs"
)

// line is the way to one node in one class of traffic, shared by all who use
// it. It outlives connections, and the addresses of the node.
//
// What it has to tell, it tells from a goroutine of its own, which there is only
// while there is something to tell: a caller may hold locks that whoever is told
// wants, too.
type line struct {
	dial func(address string, up, down func(session uint64)) *peer.Peer
	run  func(func()) // starts a goroutine

	way atomic.Pointer[peer.Peer] // nil: no address is known; set under mu

	mu         sync.Mutex // guards what follows
	address    string
	generation uint64 // of way
	session    uint64 // that is up; 0: none
	refused    bool   // none is up, and the last attempt found that nobody listens
	holds      int    // of way
	links      map[*link]struct{}
	unsent     []func() // done of calls that were not sent
	telling    bool     // a goroutine tells
}

// link is one user's part of a line: a coord.Link.
type link struct {
	line   *line
	events coord.LinkEvents
	in     atomic.Pointer[talk] // nil: not up
	closed atomic.Bool

	// What the user was last told; guarded by line.mu.
	up      uint64 // session
	refused bool
}

// talk is one session as a link may use it.
type talk struct {
	way     *peer.Peer
	session uint64
}

// move changes the address; "": the node is not known any more. It waits for
// the end of the old connection. One goroutine at a time may move a line.
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

// became takes note of a session that began, or with 0 ended.
func (l *line) became(generation, session uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if generation != l.generation {
		return
	}
	l.session, l.refused = session, false
	l.tellLocked()
}

// attempted takes note of an attempt to connect that failed.
func (l *line) attempted(address string, refused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if address != l.address || l.session != 0 {
		return
	}
	l.refused = refused
	l.tellLocked()
}

// hold wants the connection, calls or not, or no longer.
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

// hurry has the next attempt to connect made now.
func (l *line) hurry() {
	if way := l.way.Load(); way != nil {
		way.Hurry()
	}
}

// connected reports whether a session is up.
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

// call makes a call in whichever session there is.
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

// later calls f from the goroutine that tells.
func (l *line) later(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsent = append(l.unsent, f)
	l.tellLocked()
}

// tellLocked sees to a goroutine that tells.
func (l *line) tellLocked() {
	if !l.telling {
		l.telling = true
		l.run(l.tell)
	}
}

// tell tells whoever is to be told something, until nobody is.
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

// due returns what is to be told: first what became of calls that were not sent,
// so that a session's end comes after the last of its calls.
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

// dueLocked adds what the link's user is to be told. line.mu is held.
func (k *link) dueLocked(todo []func(), way *peer.Peer, session uint64, refused bool) []func() {
	if k.up != session && k.up != 0 {
		k.up = 0
		todo = append(todo, func() { k.ended(false) })
	}
	if session != 0 && k.up == 0 {
		k.up, k.refused = session, false
		todo = append(todo, func() { k.began(&talk{way, session}) })
	}
	if session == 0 && refused && !k.refused {
		k.refused = true
		todo = append(todo, func() { k.ended(true) })
	}
	return todo
}

func (k *link) began(t *talk) {
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

// Gatherer returns the connection of the session that is up; nil: none is.
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

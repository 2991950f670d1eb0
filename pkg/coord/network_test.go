package coord_test

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
)

// DeadAfter is the time after which a session without any arrivals ends.
const DeadAfter = 3 * time.Second

// frameBytes is the size of a request in transit without its payload.
const frameBytes = 70

// Errors of calls.
var (
	// errBroken ends the calls of a session that has ended.
	errBroken = errors.New("the session broke")
	// errTooBig refuses a request over the network's frame.
	errTooBig = errors.New("the request is too big for a frame")
)

// Handler handles the calls to a node, those of one session one at a time. It
// must not wait. It owns the payload.
type Handler func(from meta.NodeID, kind uint8, payload []byte, reply func([]byte))

// Network connects replicas in memory, in real or virtual time, with delays, broken sessions, one-way
// partitions and dead nodes. As with the real transport, calls of a session arrive in order, one at a
// time; a call completes exactly once, with its response or an error; when a link reports its session
// down, all calls of that session have completed; a session that lost something ends. Its methods are
// safe for concurrent use.
type Network struct {
	running sync.WaitGroup // goroutines that carry something

	mu       sync.Mutex // guards what follows and all pipes
	handlers map[meta.NodeID]Handler
	pipes    map[direction]*pipe
	cut      map[direction]bool
	delay    func(from, to meta.NodeID) time.Duration
	maxFrame int                     // 0: any size passes
	rates    map[direction]int       // bytes a second; 0: any number
	free     map[direction]time.Time // when what was sent at a rate has left
}

// direction is from one node to another.
type direction struct{ from, to meta.NodeID }

func (w direction) back() direction { return direction{w.to, w.from} }

// NewNetwork returns a network without nodes and without delays.
func NewNetwork() *Network {
	return &Network{
		handlers: map[meta.NodeID]Handler{}, pipes: map[direction]*pipe{}, cut: map[direction]bool{},
		rates: map[direction]int{}, free: map[direction]time.Time{},
		delay: func(_, _ meta.NodeID) time.Duration { return 0 },
	}
}

// SetDelay delays each message by the result of f, which is called under a
// lock. Messages of one session never overtake each other.
func (n *Network) SetDelay(f func(from, to meta.NodeID) time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = f
}

// SetMaxFrame makes the network refuse requests of more than bytes with errTooBig;
// 0: none.
func (n *Network) SetMaxFrame(bytes int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.maxFrame = bytes
}

// SetRate limits requests from one node to another to rate bytes a second; 0: no
// limit.
func (n *Network) SetRate(from, to meta.NodeID, rate int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rates[direction{from, to}] = rate
}

// departLocked returns when size bytes have left on a way with a rate; the zero
// time: at once.
func (n *Network) departLocked(w direction, size int) time.Time {
	rate := n.rates[w]
	if rate == 0 {
		return time.Time{}
	}
	at := time.Now()
	if n.free[w].After(at) {
		at = n.free[w]
	}
	n.free[w] = at.Add(time.Duration(size) * time.Second / time.Duration(rate))
	return n.free[w]
}

// Serve makes a node reachable, with h for its calls.
func (n *Network) Serve(id meta.NodeID, h Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handlers[id] = h
	n.reconnectLocked()
}

// Kill ends a node: until Serve, its links are silent, calls to it end, and new
// connections to it are refused.
func (n *Network) Kill(id meta.NodeID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.handlers, id)
	for w, p := range n.pipes {
		switch id {
		case w.from:
			for l := range p.links {
				l.closed = true
			}
			delete(n.pipes, w)
			p.session++
			p.up = false
		case w.to:
			p.breakLocked(true)
		}
	}
}

// SetCut blocks or unblocks all messages from one node to another. An affected
// session ends after DeadAfter, or at the end of the cut if a message was lost.
func (n *Network) SetCut(from, to meta.NodeID, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[direction{from, to}] = cut
	n.reconnectLocked()
}

// Break ends the sessions between two nodes. New ones begin if they can.
func (n *Network) Break(a, b meta.NodeID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range []direction{{a, b}, {b, a}} {
		if p := n.pipes[w]; p != nil && p.up {
			p.breakLocked(false)
		}
	}
	n.reconnectLocked()
}

// Wait returns when nothing is in transit.
func (n *Network) Wait() { n.running.Wait() }

// Peers returns a node's connections to the others.
func (n *Network) Peers(self meta.NodeID) coord.Peers { return peers{n, self} }

type peers struct {
	net  *Network
	self meta.NodeID
}

// Follow implements coord.Peers.
func (p peers) Follow(node meta.NodeID, e coord.LinkEvents) coord.Link {
	n := p.net
	n.mu.Lock()
	defer n.mu.Unlock()
	w := direction{p.self, node}
	pp := n.pipes[w]
	if pp == nil {
		pp = &pipe{net: n, way: w, links: map[*link]bool{}, calls: map[*call]bool{}}
		n.pipes[w] = pp
	}
	l := &link{pipe: pp, events: e}
	pp.links[l] = true
	switch {
	case pp.up:
		pp.answers.push(n, time.Time{}, func() { l.fire(func() { e.Up() }) })
	case n.handlers[node] == nil:
		pp.answers.push(n, time.Time{}, func() { l.fire(func() { e.Down(true) }) })
	}
	n.reconnectLocked()
	return l
}

// reconnectLocked starts and ends sessions according to the state of the
// network.
func (n *Network) reconnectLocked() {
	for _, p := range n.pipes {
		whole := !n.cut[p.way] && !n.cut[p.way.back()]
		if whole {
			p.starving = nil
		}
		switch served := n.handlers[p.way.to] != nil; {
		case p.up && whole && p.lost:
			p.breakLocked(false)
			p.connectLocked()
		case p.up && !whole:
			p.starveLocked()
		case !p.up && whole && served:
			p.connectLocked()
		}
	}
}

// pipe is the connection of one node to another: one session at a time, for all
// links. The network's mutex guards it.
type pipe struct {
	net      *Network
	way      direction
	links    map[*link]bool
	session  uint64
	up       bool
	lost     bool // a message of the session did not arrive
	starving *int // not nil while the session is cut: which cut it is
	calls    map[*call]bool
	requests line // to the other node
	answers  line // from it, and everything reported to links
}

type call struct {
	done func([]byte, error)
}

func (p *pipe) connectLocked() {
	p.up, p.lost = true, false
	p.session++
	for l := range p.links {
		p.answers.push(p.net, p.net.arrival(p.way), func() { l.fire(l.events.Up) })
	}
}

// breakLocked ends the session, if there is one, and notifies the links.
func (p *pipe) breakLocked(refused bool) {
	was := p.up
	p.up, p.starving = false, nil
	p.session++
	calls := p.calls
	p.calls = map[*call]bool{}
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.answers.push(p.net, time.Time{}, func() {
		for c := range calls {
			c.done(nil, errBroken)
		}
		for _, l := range links {
			if was || refused {
				l.fire(func() { l.events.Down(refused) })
			}
		}
	})
}

// starveLocked breaks the session in a while if it is still cut then.
func (p *pipe) starveLocked() {
	if p.starving != nil {
		return
	}
	cut := new(int)
	p.starving = cut
	p.net.running.Add(1)
	time.AfterFunc(DeadAfter, func() {
		defer p.net.running.Done()
		n := p.net
		n.mu.Lock()
		defer n.mu.Unlock()
		if p.up && p.starving == cut {
			p.breakLocked(false)
		}
		n.reconnectLocked()
	})
}

func (n *Network) arrival(w direction) time.Time {
	if d := n.delay(w.from, w.to); d > 0 {
		return time.Now().Add(d)
	}
	return time.Time{}
}

type link struct {
	pipe   *pipe
	events coord.LinkEvents
	closed bool // guarded by the network's mutex
}

// fire notifies the link unless it is closed.
func (l *link) fire(event func()) {
	n := l.pipe.net
	n.mu.Lock()
	closed := l.closed
	n.mu.Unlock()
	if !closed {
		event()
	}
}

// Close implements coord.Link.
func (l *link) Close() {
	n := l.pipe.net
	n.mu.Lock()
	defer n.mu.Unlock()
	l.closed = true
	delete(l.pipe.links, l)
}

// Go implements coord.Link.
func (l *link) Go(kind uint8, payload [][]byte, done func([]byte, error)) {
	p := l.pipe
	n := p.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.closed || !p.up {
		p.answers.push(n, time.Time{}, func() { done(nil, errBroken) })
		return
	}
	whole := bytes.Join(payload, nil)
	if n.maxFrame > 0 && len(whole) > n.maxFrame {
		p.answers.push(n, time.Time{}, func() { done(nil, errTooBig) })
		return
	}
	c, session := &call{done}, p.session
	p.calls[c] = true
	at := n.arrival(p.way)
	if left := n.departLocked(p.way, len(whole)+frameBytes); !left.IsZero() {
		at = left.Add(n.delay(p.way.from, p.way.to))
	}
	p.requests.push(n, at, func() { p.arrive(session, c, kind, whole) })
}

// arrive hands a request to the node.
func (p *pipe) arrive(session uint64, c *call, kind uint8, payload []byte) {
	n := p.net
	n.mu.Lock()
	h := n.handlers[p.way.to]
	if session != p.session || h == nil {
		n.mu.Unlock()
		return
	}
	if n.cut[p.way] {
		p.lost = true
		n.mu.Unlock()
		return
	}
	n.mu.Unlock()
	h(p.way.from, kind, payload, func(answer []byte) {
		n.mu.Lock()
		defer n.mu.Unlock()
		p.answers.push(n, n.arrival(p.way.back()), func() { p.answer(session, c, answer) })
	})
}

// answer hands an answer to the caller.
func (p *pipe) answer(session uint64, c *call, answer []byte) {
	n := p.net
	n.mu.Lock()
	if session != p.session || !p.calls[c] {
		n.mu.Unlock()
		return
	}
	if n.cut[p.way.back()] {
		p.lost = true
		n.mu.Unlock()
		return
	}
	delete(p.calls, c)
	n.mu.Unlock()
	c.done(answer, nil)
}

// line carries things one at a time, each not before its time. It has a
// goroutine only while something is on it. The network's mutex guards it.
type line struct {
	queue   []item
	running bool
}

type item struct {
	at time.Time // zero: at once
	f  func()
}

func (l *line) push(n *Network, at time.Time, f func()) {
	l.queue = append(l.queue, item{at, f})
	if !l.running {
		l.running = true
		n.running.Go(func() { l.carry(n) })
	}
}

func (l *line) carry(n *Network) {
	for {
		n.mu.Lock()
		if len(l.queue) == 0 {
			l.queue, l.running = nil, false
			n.mu.Unlock()
			return
		}
		next := l.queue[0]
		l.queue = l.queue[1:]
		n.mu.Unlock()
		if d := time.Until(next.at); !next.at.IsZero() && d > 0 {
			<-time.After(d)
		}
		next.f()
	}
}

package replica

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerd/brokerd/pkg/coord"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Times of the network.
const (
	deadAfter   = time.Second // silence after which a session is given up
	dialBackoff = 40 * time.Millisecond
)

var (
	errBroken = errors.New("the session broke")
	errFull   = errors.New("the queue is full")
)

// network carries the calls between processes. Sessions keep the order of calls. A session breaks
// when a test breaks it, when a process ends, or when a direction was cut for too long.
type network struct {
	mu    sync.Mutex // guards what follows, and everything of links and sessions
	moved *sync.Cond
	rnd   *rand.Rand
	cuts  map[edge]int // the number of the cut; 0: no cut
	slow  map[edge]time.Duration
	busy  map[edge]int // percent of the calls that a full queue drops
	hosts map[meta.NodeID]*host
	count int
	twist *twist // a planted mistake; nil: none

	maxFrame int // the largest request
	tooBig   func(kind uint8, size int)
}

type edge struct{ from, to meta.NodeID }

// host is one process.
type host struct {
	id      meta.NodeID
	net     *network
	handle  func(kind uint8, payload []byte, reply func([]byte))
	dead    bool
	epoch   atomic.Uint64 // the epoch that the process serves
	targets map[meta.NodeID]*target
}

// target is what a process keeps about another node.
type target struct {
	self    *host
	node    meta.NodeID
	links   []*link
	session *session
}

type link struct {
	t       *target
	e       coord.LinkEvents
	closed  bool
	events  []func()
	running bool
}

type session struct {
	net      *network
	from, to *host
	broken   bool
	pending  map[*call]struct{}
	there    *pipe
	back     *pipe
}

type call struct{ done func([]byte, error) }

// pipe is one direction of a session.
type pipe struct {
	s     *session
	e     edge
	queue []parcel
}

type parcel struct {
	at time.Time
	do func()
}

func newNetwork(seed uint64) *network {
	n := &network{
		rnd: rand.New(rand.NewPCG(seed, 77)), cuts: map[edge]int{}, slow: map[edge]time.Duration{}, busy: map[edge]int{},
		hosts: map[meta.NodeID]*host{},
	}
	n.moved = sync.NewCond(&n.mu)
	return n
}

// join connects a process to the network.
func (n *network) join(id meta.NodeID, handle func(uint8, []byte, func([]byte))) *host {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := &host{id: id, net: n, handle: handle, targets: map[meta.NodeID]*target{}}
	n.hosts[id] = h
	n.moved.Broadcast()
	return h
}

// leave ends a process: its sessions break.
func (n *network) leave(h *host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h.dead = true
	if n.hosts[h.id] == h {
		delete(n.hosts, h.id)
	}
	n.moved.Broadcast()
}

// cut stops a direction. Sessions that use it are given up after a while.
func (n *network) cut(e edge) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count++
	number := n.count
	n.cuts[e] = number
	time.AfterFunc(deadAfter, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.cuts[e] == number {
			n.breakLocked(e.from, e.to)
		}
	})
}

// heal ends all cuts and delays.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cuts)
	clear(n.slow)
	clear(n.busy)
	n.moved.Broadcast()
}

func (n *network) setSlow(e edge, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow[e] = d
}

// setBusy drops some calls. Those behind them arrive.
func (n *network) setBusy(e edge, percent int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.busy[e] = percent
}

// breakUp breaks the sessions between two nodes.
func (n *network) breakUp(a, b meta.NodeID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.breakLocked(a, b)
}

func (n *network) breakLocked(a, b meta.NodeID) {
	for _, e := range []edge{{a, b}, {b, a}} {
		if h := n.hosts[e.from]; h != nil {
			if t := h.targets[e.to]; t != nil && t.session != nil {
				t.session.breakLocked()
			}
		}
	}
}

func (n *network) chance(percent int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rnd.IntN(100) < percent
}

func (n *network) delayLocked(e edge) time.Duration {
	return time.Duration(100+n.rnd.IntN(400))*time.Microsecond + n.slow[e]
}

// breakLocked ends a session: its calls fail.
func (s *session) breakLocked() {
	if s.broken {
		return
	}
	s.broken = true
	failed := s.pending
	s.pending = nil
	s.net.moved.Broadcast()
	go func() {
		for c := range failed {
			c.done(nil, errBroken)
		}
	}()
}

// Follow implements coord.Peers.
func (h *host) Follow(node meta.NodeID, e coord.LinkEvents) coord.Link {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	t := h.targets[node]
	if t == nil {
		t = &target{self: h, node: node}
		h.targets[node] = t
		go t.connect()
	}
	l := &link{t: t, e: e}
	t.links = append(t.links, l)
	if t.session != nil && !t.session.broken {
		l.postLocked(e.Up)
	}
	h.net.moved.Broadcast()
	return l
}

// Close implements coord.Link.
func (l *link) Close() {
	l.t.self.net.mu.Lock()
	defer l.t.self.net.mu.Unlock()
	l.closed, l.events = true, nil
	l.t.links = slices.DeleteFunc(l.t.links, func(o *link) bool { return o == l })
}

func (l *link) postLocked(f func()) {
	l.events = append(l.events, f)
	if !l.running {
		l.running = true
		go l.drain()
	}
}

func (l *link) drain() {
	n := l.t.self.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(l.events) > 0 {
		f := l.events[0]
		l.events = l.events[1:]
		n.mu.Unlock()
		f()
		n.mu.Lock()
	}
	l.running = false
}

// Go implements coord.Link.
func (l *link) Go(kind uint8, payload [][]byte, done func([]byte, error)) {
	n := l.t.self.net
	n.mu.Lock()
	defer n.mu.Unlock()
	s := l.t.session
	if s == nil || s.broken || l.closed {
		go done(nil, errBroken)
		return
	}
	if e := (edge{l.t.self.id, l.t.node}); n.rnd.IntN(100) < n.busy[e] {
		time.AfterFunc(n.delayLocked(e), func() { done(nil, errFull) })
		return
	}
	request := slices.Concat(payload...)
	if len(request) > n.maxFrame {
		n.tooBig(kind, len(request))
	}
	c := &call{done}
	s.pending[c] = struct{}{}
	s.there.sendLocked(func() { s.arrive(kind, request, c) })
}

// arrive passes a request to the process that it is addressed to.
func (s *session) arrive(kind uint8, request []byte, c *call) {
	reply := func(answer []byte) {
		s.net.mu.Lock()
		defer s.net.mu.Unlock()
		if !s.broken && !s.to.dead {
			s.back.sendLocked(func() { s.answer(c, answer) })
		}
	}
	if w := s.net.twist; w != nil && w.request != nil {
		request, reply = w.request(s, kind, request, reply)
	}
	s.to.handle(kind, request, reply)
}

func (s *session) answer(c *call, answer []byte) {
	s.net.mu.Lock()
	_, waits := s.pending[c]
	delete(s.pending, c)
	s.net.mu.Unlock()
	if waits {
		c.done(answer, nil)
	}
}

func (p *pipe) sendLocked(do func()) {
	at := time.Now().Add(p.s.net.delayLocked(p.e))
	if n := len(p.queue); n > 0 && at.Before(p.queue[n-1].at) {
		at = p.queue[n-1].at
	}
	p.queue = append(p.queue, parcel{at, do})
	p.s.net.moved.Broadcast()
}

func (p *pipe) run() {
	n := p.s.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for !p.s.broken {
		if len(p.queue) == 0 || n.cuts[p.e] != 0 {
			n.moved.Wait()
			continue
		}
		head := p.queue[0]
		if wait := time.Until(head.at); wait > 0 {
			n.mu.Unlock()
			time.Sleep(wait)
			n.mu.Lock()
			continue
		}
		p.queue = p.queue[1:]
		n.mu.Unlock()
		head.do()
		n.mu.Lock()
	}
}

// connect keeps a session to the node while the process lives and a link needs it.
func (t *target) connect() {
	n := t.self.net
	n.mu.Lock()
	defer n.mu.Unlock()
	for !t.self.dead {
		if len(t.links) == 0 {
			n.moved.Wait()
			continue
		}
		there, back := edge{t.self.id, t.node}, edge{t.node, t.self.id}
		t.pauseLocked(n.delayLocked(there) + n.delayLocked(back))
		to := n.hosts[t.node]
		switch {
		case t.self.dead:
			return
		case n.cuts[there] != 0 || n.cuts[back] != 0:
			t.pauseLocked(dialBackoff)
		case to == nil:
			t.tellLocked(func(e coord.LinkEvents) { e.Down(true) })
			t.pauseLocked(dialBackoff)
		default:
			t.serveLocked(to, there, back)
			t.pauseLocked(dialBackoff / 2)
		}
	}
}

func (t *target) pauseLocked(d time.Duration) {
	t.self.net.mu.Unlock()
	time.Sleep(d)
	t.self.net.mu.Lock()
}

func (t *target) tellLocked(event func(coord.LinkEvents)) {
	for _, l := range t.links {
		l.postLocked(func() { event(l.e) })
	}
}

// serveLocked serves a session from its beginning to its end.
func (t *target) serveLocked(to *host, there, back edge) {
	n := t.self.net
	s := &session{net: n, from: t.self, to: to, pending: map[*call]struct{}{}}
	s.there, s.back = &pipe{s: s, e: there}, &pipe{s: s, e: back}
	go s.there.run()
	go s.back.run()
	silent := n.twist != nil && n.twist.sessionsContinue && t.session != nil
	t.session = s
	if !silent {
		t.tellLocked(func(e coord.LinkEvents) { e.Up() })
	}
	for !s.broken && !t.self.dead && !to.dead {
		n.moved.Wait()
	}
	s.breakLocked()
	if n.twist != nil && n.twist.sessionsContinue {
		return
	}
	t.session = nil
	t.tellLocked(func(e coord.LinkEvents) { e.Down(false) })
}

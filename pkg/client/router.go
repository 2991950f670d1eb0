package client

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// router finds the connection for a publish: to a node that leads partitions of the topic, if a
// lookup has named one, and otherwise to any node, since any node accepts any publish. Any
// goroutine may call its methods.
type router struct {
	client *Client
	lookup *lookups // nil without lookup addresses
	turn   atomic.Uint64

	mu    sync.RWMutex // guards the fields below
	links map[string]*link
	any   []*link           // in the order in which they are tried
	topic map[string]*route // by topic; only with a lookup
}

// route holds the known leaders of a topic.
type route struct {
	leaders []*link
	asked   time.Time
	until   time.Time // when to query them again
	asking  bool
	used    atomic.Bool // since the last check of the routes
}

// hintPause is the minimum time between two queries for a topic, whatever fails.
const hintPause = 100 * time.Millisecond

func newRouter(c *Client) *router {
	r := &router{client: c, links: map[string]*link{}, topic: map[string]*route{}}
	if len(c.cfg.lookups) > 0 {
		r.lookup = &lookups{cfg: c.cfg}
	}
	for _, a := range c.cfg.nodes {
		r.any = append(r.any, r.linkLocked(a))
	}
	rand.Shuffle(len(r.any), func(i, j int) { r.any[i], r.any[j] = r.any[j], r.any[i] })
	return r
}

func (r *router) linkLocked(address string) *link {
	l := r.links[address]
	if l == nil {
		l = &link{address: address, client: r.client}
		r.links[address] = l
	}
	return l
}

// live returns an open connection; nil: connect must open one.
func (r *router) live(topic string) *conn {
	r.mu.RLock()
	leaders, others := r.leadersLocked(topic), r.any
	r.mu.RUnlock()
	if r.lookup != nil && leaders == nil {
		return nil // the leaders must be queried first
	}
	if n := uint64(len(leaders)); n > 0 {
		first := r.turn.Add(1)
		for i := range n {
			l := leaders[(first+i)%n]
			if cn := l.live(); cn != nil {
				return cn
			}
			l.kick()
		}
		return nil // connect tries other links
	}
	if len(others) > 0 {
		return others[0].live()
	}
	return nil
}

// leadersLocked returns the leaders of a topic. It returns nil if they must be queried first; if
// the known ones are only outdated, it queries them in the background.
func (r *router) leadersLocked(topic string) []*link {
	known := r.topic[topic]
	if known == nil {
		return nil
	}
	if !known.used.Load() {
		known.used.Store(true)
	}
	return known.leaders
}

// connect returns a connection for a topic: to one of its leaders, else to any node.
func (r *router) connect(ctx context.Context, topic string) (*conn, error) {
	r.refresh(ctx, topic)
	candidates := r.candidates(topic)
	for _, l := range candidates {
		if cn := l.live(); cn != nil {
			return cn, nil
		}
	}
	cn, err := r.dialAny(ctx, candidates)
	if err != nil {
		r.hint(topic)
	}
	return cn, err
}

// nextDial is how long a node may take to accept a connection before the next one is tried as well.
const nextDial = 250 * time.Millisecond

// dialed is the result of connecting to one of several nodes.
type dialed struct {
	link *link
	cn   *conn
	err  error
}

// dialAny connects to the first of the links that accepts. A node that neither accepts nor refuses, as one
// whose machine is off, must not use up the time for the others: after nextDial, the next is tried too.
func (r *router) dialAny(ctx context.Context, left []*link) (*conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan dialed, len(left))
	next := time.NewTimer(0)
	defer next.Stop()
	var errs []error
	for pending := 0; len(left) > 0 || pending > 0; {
		due := next.C
		if len(left) == 0 {
			due = nil
		}
		select {
		case <-due:
			l := left[0]
			left = left[1:]
			if !r.client.start(func() {
				cn, err := l.connect(ctx)
				results <- dialed{l, cn, err}
			}) {
				return nil, notReachable([]error{ErrClosed})
			}
			pending++
			next.Reset(nextDial)
		case d := <-results:
			if d.err == nil {
				r.prefer(d.link)
				return d.cn, nil
			}
			errs = append(errs, d.err)
			pending--
			next.Reset(0)
		}
	}
	return nil, notReachable(errs)
}

// candidates returns the links to try, in order of preference.
func (r *router) candidates(topic string) []*link {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []*link
	if leaders := r.leadersLocked(topic); len(leaders) > 0 {
		first := int(r.turn.Add(1) % uint64(len(leaders)))
		all = append(append(all, leaders[first:]...), leaders[:first]...)
	}
	for _, l := range r.any {
		if !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	return all
}

// prefer makes a node that accepted a connection the first of equally good ones.
func (r *router) prefer(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.any, l); i > 0 {
		r.any = slices.Concat([]*link{l}, r.any[:i], r.any[i+1:])
	}
}

// hint marks the known leaders of a topic as possibly outdated: they are queried again before the
// next connection is chosen.
func (r *router) hint(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.topic[topic]; known != nil {
		known.until = known.asked.Add(hintPause)
	}
}

// refresh queries the leaders of a topic if they are unknown or outdated. Lookups that hang take at most
// half of the time for an attempt: a known node may still accept the publish.
func (r *router) refresh(ctx context.Context, topic string) {
	if r.lookup == nil || !r.claim(topic, time.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.client.cfg.dialTimeout/2)
	defer cancel()
	leaders, err := r.lookup.producers(ctx, topic)
	if err != nil {
		r.client.cfg.log.Warn("lookup failed; publishing continues to known nodes", "topic", topic, "error", err)
	}
	nodes, _ := r.lookup.nodes(ctx) // on failure, only the leaders are used
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.topic[topic]
	known.asking, known.asked = false, time.Now()
	if err == nil {
		known.leaders = known.leaders[:0:0]
		for _, a := range leaders {
			known.leaders = append(known.leaders, r.linkLocked(a))
		}
	}
	if known.leaders == nil {
		known.leaders = []*link{}
	}
	known.until = known.asked.Add(r.client.cfg.refresh)
	for _, a := range append(nodes, leaders...) {
		if l := r.linkLocked(a); !slices.Contains(r.any, l) {
			r.any = append(slices.Clip(r.any), l)
		}
	}
}

// claim reports whether the caller must query a topic now.
func (r *router) claim(topic string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.topic[topic]
	if known == nil {
		known = &route{}
		r.topic[topic] = known
	}
	if known.asking || now.Before(known.until) {
		return false
	}
	known.asking = true
	return true
}

// run repeats the queries for topics periodically, and removes topics without recent publishes,
// until ctx ends.
func (r *router) run(ctx context.Context) {
	if r.lookup == nil {
		return
	}
	tick := time.NewTicker(r.client.cfg.refresh)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, topic := range r.used() {
			r.refresh(ctx, topic)
		}
	}
}

// used returns the topics with publishes since the last call, and removes the others.
func (r *router) used() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for t, known := range r.topic {
		switch {
		case known.used.Swap(false):
			all = append(all, t)
		case !known.asking:
			delete(r.topic, t)
		}
	}
	return all
}

// close ends all connections.
func (r *router) close() {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, l := range r.links {
		if cn := l.current.Load(); cn != nil {
			cn.end(ErrClosed)
		}
	}
}

package formation

import "time"

// promises holds the promise of a node without state. A promise is to one bootstrap node at a time
// and expires. A bond, which only the holder of the promise can get, does not expire. The zero
// value is free.
//
//	free --promise--> promised --bind--> bound
//	  ^                  |                 |
//	  +--release, time---+      promise of the same node, started again at the
//	                            same address: its old process is gone
//
// Once the node joins a cluster or founds one, it gives no more promises.
type promises struct {
	to     identity // zero: free
	until  time.Time
	bound  bool
	joined bool // it joins, or has joined
}

// heldAt returns the node to which this one is bound or promised at a time.
func (p *promises) heldAt(now time.Time) (identity, bool) {
	if p.to == (identity{}) || !p.bound && !now.Before(p.until) {
		return identity{}, false
	}
	return p.to, true
}

// promise gives the word to a founder for a while, unless another has it.
func (p *promises) promise(to identity, now time.Time, d time.Duration) bool {
	held, ok := p.heldAt(now)
	restarted := p.bound && held.Node == to.Node && held.Address == to.Address
	if p.joined || ok && held != to && !restarted {
		return false
	}
	if held != to {
		p.bound = false
	}
	p.to, p.until = to, now.Add(d)
	return true
}

// bind turns an unexpired promise into a bond, which does not expire.
func (p *promises) bind(to identity, now time.Time) bool {
	if held, ok := p.heldAt(now); p.joined || !ok || held != to {
		return false
	}
	p.bound = true
	return true
}

// release gives a promise back. A bond stays.
func (p *promises) release(to identity) {
	if p.to == to && !p.bound {
		p.to = identity{}
	}
}

// join is called before the node itself joins a cluster whose responding members are given. It
// refuses while the node is promised to another bootstrap node that is not among them: that one may
// be forming a cluster that counts on this node.
func (p *promises) join(self identity, members []seen, now time.Time) bool {
	if held, ok := p.heldAt(now); ok && held != self && !has(members, held.Node) {
		return false
	}
	p.joined = true
	return true
}

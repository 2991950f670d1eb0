package controller

import (
	"slices"
	"time"

	"github.com/brokerd/brokerd/internal/beat"
	"github.com/brokerd/brokerd/pkg/meta"
)

// Verdict is a change of a node's assumed liveness.
type Verdict struct {
	Node        meta.NodeID
	Incarnation uint64 // of the process
	Alive       bool
	Why         string // for the log and the operator
}

// Former is the previous controller as known to its successor.
type Former struct {
	Node        meta.NodeID // "": none, or unknown
	Incarnation uint64      // with which it was the controller
	Heard       time.Time   // when it was last heard from
}

// detector judges the liveness of nodes. Its inputs are observations with times, and its outputs
// depend only on them and on the given time. It is not safe for concurrent use.
type detector struct {
	opts   Options
	self   meta.NodeID
	former Former
	voters func() []meta.NodeID // of the metadata; nil: unknown
	last   time.Time            // of the last Tick
	due    time.Time            // latest time requested for the next Tick
	nodes  map[meta.NodeID]*liveness
}

// liveness is what is known about a node.
type liveness struct {
	incarnation uint64
	alive       bool
	heard       time.Time // last sign of life
	steady      time.Time // heard from since then without a gap; zero: not heard from
	aliveSince  time.Time // when it was last found alive
	refused     time.Time // first of the consecutive refusals; zero: none
	confirmed   bool      // refused again, sufficiently later than the first time
	probed      time.Time // when a probe was last requested
	unserving   time.Time // when it last answered that it does not serve; zero: never
	deaths      []time.Time
}

// newDetector returns a detector without observations. The node self is always alive.
func newDetector(o Options, self meta.NodeID, now time.Time) *detector {
	return &detector{opts: o.WithDefaults(), self: self, last: now, nodes: map[meta.NodeID]*liveness{}}
}

// Succeed names the previous controller, before the first Tick. Its silence counts from before,
// because a majority has not heard from it either. It has at least probeEvery to answer this
// controller.
func (d *detector) Succeed(f Former) { d.former = f }

// Heard records an answer of a node and its incarnation. An answer of a process other than the
// registered one does not count as a sign of life. The incarnation is 0 while a process does not
// serve: it starts or stops, or its disk does not respond.
func (d *detector) Heard(id meta.NodeID, incarnation uint64, now time.Time) {
	p := d.nodes[id]
	if p == nil || incarnation != p.incarnation {
		if p != nil && incarnation == 0 {
			p.unserving = now
		}
		return
	}
	if p.steady.IsZero() || now.Sub(p.heard) > d.opts.SessionTimeout {
		p.steady = now
	}
	p.heard = now
	p.refused, p.confirmed = time.Time{}, false
}

// Refused records a refused connection: no process listens.
func (d *detector) Refused(id meta.NodeID, now time.Time) {
	p := d.nodes[id]
	if p == nil {
		return
	}
	p.steady = time.Time{}
	if p.refused.IsZero() {
		p.refused = now
		return
	}
	p.confirmed = p.confirmed || now.Sub(p.refused) >= confirmAfter
}

// Suspect requests a probe of a node at the next Tick, unless its machine has refused a
// connection: then the second probe keeps its distance from the first.
func (d *detector) Suspect(id meta.NodeID) {
	if p := d.nodes[id]; p != nil && p.alive && p.refused.IsZero() {
		p.probed = time.Time{}
	}
}

// Tick checks the nodes of the metadata and returns their changes by id, which nodes to probe
// now, and when to call again. It must be called at least every probeEvery: after a gap longer
// than SessionTimeout, or a step backwards, all observations are dropped, because missing
// messages then say something about this node and not about the others. For the same reason the
// delay of a late Tick does not count as silence. While most voters are silent, silence is no death
// either: see isolated.
func (d *detector) Tick(s *meta.State, now time.Time) (verdicts []Verdict, probe []meta.NodeID, next time.Time) {
	if gap := now.Sub(d.last); gap < 0 || gap > d.opts.SessionTimeout {
		d.forget(now)
	} else if missed := now.Sub(d.due); !d.due.IsZero() && missed > probeEvery/lateProbe {
		d.excuse(missed, now)
	}
	defer func() { d.due = next }()
	d.last = now
	next = now.Add(probeEvery)
	known, doubtful := 0, d.isolated(now, d.opts.SessionTimeout/2)
	for n := range s.Nodes() {
		p := d.meet(n, now)
		known++
		if n.ID == d.self {
			p.heard = now
			if p.steady.IsZero() {
				p.steady = now
			}
		} else if at := d.probeAt(p); !at.After(now) {
			p.probed = now
			probe = append(probe, n.ID)
		} else if at.Before(next) {
			next = at
		}
		if v, changed := d.judge(n, p, doubtful, now); changed {
			verdicts = append(verdicts, v)
		}
		if p.alive {
			if at := p.heard.Add(d.opts.SessionTimeout); at.After(now) && at.Before(next) {
				next = at
			}
		}
		if at := d.probeAt(p); n.ID != d.self && at.After(now) && at.Before(next) {
			next = at
		}
	}
	if known < len(d.nodes) {
		for id := range d.nodes {
			if s.Node(id) == nil {
				delete(d.nodes, id)
			}
		}
	}
	return verdicts, probe, next
}

// isolated reports whether this node has heard from no majority of the voters within a time, itself
// included. It leads the metadata, which it does only as long as a majority of the voters responds to
// its heartbeats. So they are alive, and what fails is the path from here: one that loses large packets,
// for example, blocks the connections that carry large messages, and with them the probes. If they are
// dead after all, another node leads the metadata soon, or none can.
func (d *detector) isolated(now time.Time, within time.Duration) bool {
	if d.voters == nil {
		return false
	}
	voters := d.voters()
	heard := 0
	for _, id := range voters {
		p := d.nodes[id]
		if id == d.self || p == nil || now.Sub(p.heard) < within || now.Sub(p.unserving) < within {
			heard++
		}
	}
	return heard <= len(voters)/2
}

// Alive reports whether the node is believed to be alive.
func (d *detector) Alive(id meta.NodeID) bool {
	p := d.nodes[id]
	return p != nil && p.alive
}

// AliveSince returns since when the node has been assumed alive without interruption; the zero
// time if it is not alive.
func (d *detector) AliveSince(id meta.NodeID) time.Time {
	if p := d.nodes[id]; p != nil && p.alive {
		return p.aliveSince
	}
	return time.Time{}
}

// answers reports whether the node is heard from, also while it still counts as dead.
func (d *detector) answers(id meta.NodeID, now time.Time) bool {
	p := d.nodes[id]
	return p != nil && !p.steady.IsZero() && now.Sub(p.heard) < d.opts.SessionTimeout
}

// forget drops all observations except deaths.
func (d *detector) forget(now time.Time) {
	for _, p := range d.nodes {
		p.steady, p.refused, p.confirmed, p.probed = time.Time{}, time.Time{}, false, time.Time{}
		if p.alive {
			p.heard = now
		}
	}
}

// excuse subtracts the time that this process missed from the silence of every node.
func (d *detector) excuse(missed time.Duration, now time.Time) {
	for _, p := range d.nodes {
		if p.heard = p.heard.Add(missed); p.heard.After(now) {
			p.heard = now
		}
	}
}

// meet returns the state of a node, recreated for a new process of the node.
func (d *detector) meet(n *meta.Node, now time.Time) *liveness {
	p := d.nodes[n.ID]
	if p != nil && p.incarnation == n.Incarnation {
		return p
	}
	fresh := &liveness{incarnation: n.Incarnation, alive: n.State != meta.NodeDown, heard: now, aliveSince: now}
	if f := d.former; p == nil && f.Node == n.ID && f.Incarnation == n.Incarnation && f.Heard.Before(now) {
		fresh.heard = f.Heard
		if least := now.Add(probeEvery - d.opts.SessionTimeout); fresh.heard.Before(least) {
			fresh.heard = least
		}
	}
	if p != nil {
		fresh.deaths = p.deaths
		if p.alive { // it ended and restarted before that was detected
			fresh.deaths = append(fresh.deaths, now)
		}
	}
	d.nodes[n.ID] = fresh
	return fresh
}

// probeAt returns when the node must be probed next.
func (d *detector) probeAt(p *liveness) time.Time {
	switch {
	case p.probed.IsZero():
		return d.last
	case !p.refused.IsZero() && !p.confirmed && !p.probed.After(p.refused):
		return p.refused.Add(confirmAfter)
	}
	return p.probed.Add(beat.Until(p.probed, probeEvery))
}

// judge compares the state of a node with the metadata. If the metadata differs from an earlier
// verdict, which therefore was not applied, the verdict is repeated. While its silence is doubtful, it
// is not dead.
func (d *detector) judge(n *meta.Node, p *liveness, doubtful bool, now time.Time) (Verdict, bool) {
	silent := now.Sub(p.heard) >= d.opts.SessionTimeout
	switch {
	case p.alive && p.confirmed:
		return d.died(n, p, now, "connection refused twice"), true
	case p.alive && silent && p.unserving.After(p.heard):
		return d.died(n, p, now, "answers that it does not serve: it starts or stops, or its disk has stalled"), true
	case p.alive && silent && !doubtful:
		return d.died(n, p, now, "session timed out"), true
	case !p.alive && !silent && !p.steady.IsZero() && now.Sub(p.steady) >= d.hold(p, now):
		p.alive, p.aliveSince = true, now
		return Verdict{n.ID, p.incarnation, true, "heartbeats resumed"}, true
	case !p.alive && n.State != meta.NodeDown:
		return Verdict{n.ID, p.incarnation, false, "still no heartbeats"}, true
	case p.alive && n.State == meta.NodeDown:
		return Verdict{n.ID, p.incarnation, true, "heartbeats continue"}, !p.steady.IsZero()
	}
	return Verdict{}, false
}

func (d *detector) died(n *meta.Node, p *liveness, now time.Time, why string) Verdict {
	p.alive, p.steady = false, time.Time{}
	p.deaths = append(p.deaths, now)
	return Verdict{n.ID, p.incarnation, false, why}
}

// hold returns how long a dead node must be heard from without a gap: zero after one death within
// the window, longer after each further one.
func (d *detector) hold(p *liveness, now time.Time) time.Duration {
	p.deaths = slices.DeleteFunc(p.deaths, func(at time.Time) bool { return now.Sub(at) > flapWindow })
	if len(p.deaths) < 2 {
		return 0
	}
	hold := flapHold
	for i := 2; i < len(p.deaths) && hold < maxFlapHold; i++ {
		hold *= 2
	}
	return min(hold, maxFlapHold)
}
